"""How well the size of a conversation is predicted, measured on real transcripts.

    python bench/estimator.py [FOLDER]          default: ../shared/corpus
    python bench/estimator.py --rates [FOLDER]  the rates that fit these files best

Every file of the folder that reports prompt sizes in the Messages API's format is replayed through the view and
the gauge. Before each report the gauge predicts the size; the report is compared with that prediction and with
two common rules of thumb on the same anchor, and only then does the gauge learn from it. No step is left out.

  next prompt    predicted from the previous report; the error is a share of the true prompt
  growth         the same steps; the error is a share of the prompt's growth. The total is given for all
                 steps, and for those that grew by 100 tokens or more with nothing removed in between:
                 some drops leave no trace in the files and cannot be predicted
  whole session  from the first report of a session or after a compaction to the last before the next one:
                 all growth in between is estimated at once, from content alone, by an estimator that has
                 learnt nothing; the error is a share of that growth (also given: of the final prompt)
  band           how often the true value lay in the predicted band

The rates an estimator starts with were fitted to such files. So everything is measured a second time with rates
fitted to all files except the one measured, which shows what to expect of unseen files. The third time, the
estimator starts with the plain rule for unknown tokenizers and has to learn everything from the reports.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold import profiles
from sevenfold.record import entries
from sevenfold.record.gauge import Gauge
from sevenfold.record.layout import Measured
from sevenfold.record.view import View
from sevenfold.record.weight import COUNTED, NOTHING, Estimator, Weight
from sevenfold.stores.jsonl import log as lines

CORPUS = Path(__file__).resolve().parent.parent.parent / "shared" / "corpus"

OURS, CHARS4, PADDED = "sevenfold", "chars/4", "chars/4 x 4/3"
START = {
    "letters": 0.25,
    "capitals": 0.5,
    "digits": 0.5,
    "spaces": 0.1,
    "lines": 0.5,
    "tabs": 0.5,
    "marks": 0.75,
    "wide": 0.33,
    "json": 0.05,
    "calls": 50.0,
    "results": 50.0,
    "thoughts": -50.0,
    "signature": 0.25,
    "patches": 1.0,
    "pages": 3000.0,
    "unseen": 2000.0,
}
"""The rates a fit starts from: rough, and the same for all tokenizers."""

Prior = Callable[[str], Estimator]
"""Returns the estimator to start a session with, by tokenizer."""


class Session(Struct, frozen=True):
    """The usage reports of one file, in order."""

    name: str
    tokenizer: str
    reports: tuple[Measured, ...]


class Step(Struct, frozen=True):
    """The growth of a prompt and each rule's prediction of it; the band is our gauge's."""

    prompt: int
    grown: int
    expected: dict[str, float]
    low: float
    high: float
    smooth: bool = True
    """Whether nothing was removed in between."""

    @property
    def held(self) -> bool:
        """Whether the true value was in the band."""
        return self.low <= self.grown <= self.high


def load(corpus: Path) -> list[Session]:
    """Return all files that contain usage reports."""
    sessions = []
    for path in sorted(corpus.rglob("*.jsonl")):
        view, reports = View(), []
        for line in lines.scan(path):
            measured, anchor = view.add(entries.read(line.raw)), view.layout.anchor
            if measured and anchor:
                # A stretch is estimated from the whole content of its last prompt, which a report may not include.
                sent = view.weight - anchor.reply - anchor.since
                reports.append(replace(measured, sent=sent))
        if reports:
            tokenizer = profiles.find(reports[0].model).tokenizer
            sessions.append(Session(path.stem, tokenizer, tuple(reports)))
    return sessions


def replay(session: Session, prior: Prior) -> tuple[list[Step], list[Step]]:
    """Return the predictions for every step of a session, and for every stretch of it estimated at once."""
    gauge = _gauge(session.reports[0], prior)
    steps, stretches = [], []
    first = session.reports[0]
    for measured, following in zip(session.reports, [*session.reports[1:], None], strict=True):
        if measured.previous is None:
            first = measured
        else:
            steps.append(_step(gauge, measured))
        if measured is not first and (following is None or following.previous is None):
            stretches.append(_stretch(_gauge(measured, prior), first, measured))
        gauge = gauge.observe(measured)
    return steps, stretches


def _gauge(measured: Measured, prior: Prior) -> Gauge:
    profile = profiles.find(measured.model)
    return Gauge(profile, prior(profile.tokenizer))


def _step(gauge: Gauge, measured: Measured) -> Step:
    before = measured.previous
    assert before is not None
    start, expected = before.prompt, gauge.expected(before)
    chars = _characters(before.reply + before.since - before.removed)
    return Step(
        prompt=measured.usage.prompt,
        grown=measured.usage.prompt - start,
        expected={OURS: expected.tokens - start, CHARS4: chars / 4, PADDED: chars / 3},
        low=expected.low - start,
        high=expected.high - start,
        smooth=before.removed == NOTHING,
    )


def _stretch(gauge: Gauge, first: Measured, last: Measured) -> Step:
    added = last.sent - first.sent
    chars = _characters(added)
    if not gauge.profile.thinking.kept:
        added -= last.faded - first.faded
    expected = gauge.estimator.estimate(added)
    return Step(
        prompt=last.usage.prompt,
        grown=last.usage.prompt - first.usage.prompt,
        expected={OURS: expected.tokens, CHARS4: chars / 4, PADDED: chars / 3},
        low=expected.low,
        high=expected.high,
    )


def _characters(weight: Weight) -> int:
    return weight.text + weight.json + weight.thinking


def fitted(sessions: Iterable[Session], tokenizer: str) -> dict[str, float]:
    """Return the rates that the estimator itself learns over these sessions, from a rough start."""
    estimator = Estimator.believing(tokenizer, START, 1.0)
    for session in sessions:
        if session.tokenizer == tokenizer:
            for measured in session.reports:
                gauge = Gauge(profiles.find(measured.model), estimator).observe(measured)
                estimator = gauge.estimator
    return dict(zip(COUNTED, estimator.rates, strict=True))


def figures(steps: Sequence[Step], stretches: Sequence[Step]) -> dict[str, Any]:
    """Return all figures of a replay; the errors are given by rule."""
    return {
        "steps": len(steps),
        "stretches": len(stretches),
        "rules": {rule: _by_rule(rule, steps, stretches) for rule in (OURS, CHARS4, PADDED)},
        "band_coverage": fmean(step.held for step in steps),
        "band_half_width_of_prompt": median((step.high - step.low) / 2 / step.prompt for step in steps),
        "band_half_width_of_growth": median(
            (step.high - step.low) / 2 / abs(step.grown or 1) for step in steps
        ),
        "band_coverage_whole_session": fmean(step.held for step in stretches),
        "band_half_width_whole_session": median(
            (step.high - step.low) / 2 / abs(step.grown or 1) for step in stretches
        ),
    }


def _by_rule(rule: str, steps: Sequence[Step], stretches: Sequence[Step]) -> dict[str, float]:
    errors = [step.expected[rule] - step.grown for step in steps]
    of_prompt = [abs(error) / step.prompt for error, step in zip(errors, steps, strict=True)]
    signed = [error / abs(step.grown or 1) for error, step in zip(errors, steps, strict=True)]
    of_growth = [abs(error) for error in signed]
    smooth = [step for step in steps if step.smooth and step.grown >= 100]
    whole = [(abs(step.expected[rule] - step.grown), step) for step in stretches]
    return {
        "prompt_mean": fmean(of_prompt),
        "prompt_median": median(of_prompt),
        "prompt_p95": percentile(of_prompt, 0.95),
        "prompt_max": max(of_prompt),
        "growth_median": median(of_growth),
        "growth_mean": fmean(of_growth),
        "growth_p95": percentile(of_growth, 0.95),
        "growth_signed_median": median(signed),
        "total": _total(rule, steps),
        "total_smooth": _total(rule, smooth),
        "whole_median": median(error / abs(step.grown or 1) for error, step in whole),
        "whole_median_of_prompt": median(error / step.prompt for error, step in whole),
    }


def _total(rule: str, steps: Sequence[Step]) -> float:
    return sum(step.expected[rule] for step in steps) / sum(step.grown for step in steps)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value at this share of the sorted values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _pooled(sessions: Sequence[Session], prior_for: Callable[[Session], Prior]) -> dict[str, Any]:
    steps: list[Step] = []
    stretches: list[Step] = []
    for session in sessions:
        more, longer = replay(session, prior_for(session))
        steps += more
        stretches += longer
    return figures(steps, stretches)


def _without(sessions: Sequence[Session], left_out: Session) -> Prior:
    others = [session for session in sessions if session is not left_out]
    rates = fitted(others, left_out.tokenizer)
    return lambda tokenizer: Estimator.believing(tokenizer, rates, 0.15)


def measure(corpus: Path = CORPUS) -> dict[str, Any]:
    """Return all figures; `bars` holds (name, figure, met) for each acceptance bar."""
    sessions = load(corpus)
    shipped = _pooled(sessions, lambda session: Estimator.of)
    return {
        "files": len(sessions),
        "shipped": shipped,
        "left_out": _pooled(sessions, lambda session: _without(sessions, session)),
        "unknown": _pooled(sessions, lambda session: lambda tokenizer: Estimator.of("unknown")),
        "bars": bars(shipped),
    }


def bars(found: Mapping[str, Any]) -> list[tuple[str, float, bool]]:
    """Return the acceptance bars: (name, figure, met)."""
    ours = found["rules"][OURS]
    return [
        ("next prompt: p95 error <= 0.6%", ours["prompt_p95"], ours["prompt_p95"] <= 0.006),
        ("growth per step: median error <= 10%", ours["growth_median"], ours["growth_median"] <= 0.10),
        ("growth, all steps: predicted/actual in 0.97-1.03", ours["total"], 0.97 <= ours["total"] <= 1.03),
        (
            "growth, logged steps: predicted/actual in 0.97-1.03",
            ours["total_smooth"],
            0.97 <= ours["total_smooth"] <= 1.03,
        ),
        ("whole session: median error <= 10%", ours["whole_median"], ours["whole_median"] <= 0.10),
        ("band holds the truth >= 95%", found["band_coverage"], found["band_coverage"] >= 0.95),
    ]


_ROWS = (
    ("next prompt, mean error", "prompt_mean", "7.3%"),
    ("  median", "prompt_median", "7.3%"),
    ("  p95", "prompt_p95", "7.3%"),
    ("  max", "prompt_max", "7.1%"),
    ("growth, median error", "growth_median", "7.1%"),
    ("  mean", "growth_mean", "7.1%"),
    ("  p95", "growth_p95", "7.1%"),
    ("  signed median", "growth_signed_median", "+7.1%"),
    ("  predicted/actual, all steps", "total", "7.3f"),
    ("  predicted/actual, logged steps", "total_smooth", "7.3f"),
    ("whole session, median error", "whole_median", "7.1%"),
    ("  of the final prompt", "whole_median_of_prompt", "7.2%"),
)


def show(title: str, found: Mapping[str, Any]) -> None:
    """Print one set of figures as a table."""
    print(f"\n{title}: {found['steps']} steps, {found['stretches']} stretches")
    print(f"{'':36}{OURS:>14}{CHARS4:>16}{PADDED:>16}")
    for label, key, form in _ROWS:
        cells = "".join(f"{format(found['rules'][rule][key], form):>16}" for rule in (OURS, CHARS4, PADDED))
        print(f"{label:34}{cells}")
    print(
        f"band: holds {found['band_coverage']:.1%}, half width {found['band_half_width_of_prompt']:.2%} "
        f"of the prompt, {found['band_half_width_of_growth']:.0%} of the growth (medians)\n"
        f"band, whole session: holds {found['band_coverage_whole_session']:.1%}, half width "
        f"{found['band_half_width_whole_session']:.0%} of the growth"
    )


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return exit status 0 if all bars are met, 1 if not, 2 if there is no such folder."""
    folders = [Path(argument) for argument in arguments if argument != "--rates"]
    corpus = folders[0] if folders else CORPUS
    if not corpus.is_dir():
        print(f"There is no folder {corpus}: name one that holds transcripts.", file=sys.stderr)
        return 2
    if "--rates" in arguments:
        return show_rates(load(corpus))
    found = measure(corpus)
    print(f"{found['files']} files with reports")
    show("Rates as shipped", found["shipped"])
    show("Rates fitted without the file they are tried on", found["left_out"])
    show("Nothing known of the tokenizer", found["unknown"])
    print()
    for name, figure, met in found["bars"]:
        print(f"{'pass' if met else 'FAIL'}  {name}: {figure:.4g}")
    return 0 if all(met for _, _, met in found["bars"]) else 1


def show_rates(sessions: Sequence[Session]) -> int:
    """Print the rates that fit best, by tokenizer."""
    for tokenizer in sorted({session.tokenizer for session in sessions}):
        rates = fitted(sessions, tokenizer)
        print(tokenizer, {name: round(rate, 3) for name, rate in rates.items() if rate})
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
