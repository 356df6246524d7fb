"""Settings and kill switches: what they are, where their values come from, and which are in force.

`settings.toml` is the only description of each setting: the command that shows settings, the messages about invalid
values and the page in the documentation are generated from it. This module is pure: adapters read files, the
environment and flags, and pass in layers of raw values.

A layer is a source of values: a file, an environment variable, the calling code. Later layers win. Every value in
every layer is checked, even if a later layer replaces it. An invalid value is reported with its origin and what is
allowed: as an error if code passed it, as a note if it comes from a file or the environment, so that a bad variable
never stops a program.

Switches depend on one another: with ``layers`` off no layer runs, with ``compaction`` off nothing compacts, and while
``collapse`` or ``reactive_only`` is on, auto-compaction does not run. Every combination is valid: otherwise a switch
might be refused in an emergency because of the state of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Protocol, get_type_hints

import msgspec
from msgspec import Meta, Struct, field, inspect, structs

from sevenfold.errors import SettingError

Stage = Literal["stable", "preview", "planned"]
"""stable: keeps its meaning. preview: works, may still change. planned: has no effect yet."""

MOST = 10**12
"""The largest number any setting accepts: more than enough, and every format can represent it."""

Count = Annotated[int, Meta(ge=0, le=MOST)]
Positive = Annotated[int, Meta(ge=1, le=MOST)]
WindowSize = Annotated[int, Meta(ge=1_000, le=MOST)]
Limits = Mapping[str, Positive | Literal["never"]]
Word = Annotated[str, Meta(min_length=1, max_length=200)]
Kind = Literal["switch", "whole number", "number", "choice", "text", "table", "list"]

DEFAULT = "default"
"""The origin of a value that is set nowhere."""

_WORDS = {
    **dict.fromkeys(("1", "true", "on", "yes"), True),
    **dict.fromkeys(("0", "false", "off", "no"), False),
}
_LONGEST_SHOWN = 60


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of the engine. Create them with `resolve`, which checks the values.

    Token budgets are for windows of 100,000 tokens and more; in smaller windows they shrink in proportion.
    """

    # Switches.
    layers: bool = True
    offload: bool = True
    gap_clearing: bool = True
    size_clearing: bool = True
    provider_edits: bool = True
    pinned_edits: bool = True
    snip: bool = True
    compaction: bool = True
    auto_compact: bool = True
    reactive: bool = True
    reactive_only: bool = False
    collapse: bool = False
    share_cache: bool = True
    idle_compaction: bool = True
    keep_warm: bool = True
    background_compaction: bool = True
    notes: bool = True
    notes_compaction: bool = True
    extraction: bool = True
    memory_recall: bool = True
    dream: bool = True
    checkpoints: bool = True
    recall_meaning: bool = True
    recall_ahead: bool = True
    break_watch: bool = True
    model_listing: bool = True
    token_counting: bool = True
    long_lifetime: bool = True

    # The cache.
    cache_lifetime: Literal["5m", "1h"] = "5m"
    long_lifetime_sources: tuple[Word, ...] = ("main", "sdk", "agent", "agent:*")
    long_lifetime_account: bool = True
    long_lifetime_bedrock: bool = False
    threads: bool = False

    # The window.
    context_window: WindowSize | None = None
    compact_window: WindowSize | None = None
    compact_percent: Annotated[float, Meta(gt=0, le=100)] | None = None
    blocking_limit: Positive | None = None
    wire_bytes_limit: WindowSize | None = None
    images_limit: Count | None = None

    # Offloading.
    offload_characters: Positive = 50_000
    offload_by_tool: Limits = field(default_factory=dict)
    round_characters: Positive = 200_000
    preview_bytes: Positive = 2_000
    keep_results_days: Positive | None = None
    keep_results_megabytes: Positive | None = None

    # Clearing.
    idle_least_tokens: Positive = 50_000
    idle_resume_share: Annotated[float, Meta(ge=0, le=1)] = 0.5
    gap_margin_seconds: Count = 0
    gap_keep: Positive = 5
    size_trigger_tokens: Positive = 40_000
    size_target_tokens: Count = 20_000
    size_keep: Positive = 3
    size_least_tokens: Count = 20_000
    expected_requests: Positive = 10
    edits_trigger_share: Annotated[float, Meta(gt=0, lt=1)] = 0.8
    edits_target_tokens: Positive = 40_000
    edits_least_share: Annotated[float, Meta(ge=0, le=1)] = 0.5
    pinned_trigger: Positive = 12
    pinned_keep: Positive = 5

    # Compaction.
    keep_recent_tokens: Count = 10_000
    summary_tokens: Positive = 16_000
    user_words: Positive = 20_000
    compact_engines: tuple[Literal["provider", "fork", "plain"], ...] = ()
    summary_model: Word | None = None
    background_share: Annotated[float, Meta(gt=0, lt=1)] = 0.8

    # The provider.
    max_retries: Count = 40
    stall_seconds: Annotated[float, Meta(gt=0, le=MOST)] = 120.0
    answer_tokens: Positive | None = None
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    thinking: Literal["shown", "hidden", "off"] | None = None

    # Around it.
    layer_plugins: tuple[Word, ...] = ()
    content_seconds: Positive = 900
    broker: bool = False
    language: Word | None = None
    output_style: Word | None = None
    recall_vectors: Count = 50_000
    fork_usd: Annotated[float, Meta(ge=0, le=MOST)] | None = 1.0
    mcp_tools_share: Annotated[float, Meta(ge=0, le=1)] = 0.05
    mcp_search: Literal["auto", "provider", "own"] = "auto"
    agent_depth: Count = 3
    agents_at_once: Positive = 20
    agent_window: Positive = 200_000
    progress_lines: bool = False
    prompt_suggestion: bool = False
    speculation: bool = False
    notify: Literal["off", "bell", "desktop"] = "bell"
    message_socket: bool = False
    pins_tokens: Count = 10_000
    spending_cap_usd: Annotated[float, Meta(ge=0, le=MOST)] | None = None
    memory_daily_budget: Annotated[float, Meta(ge=0, le=MOST)] | None = 1.0
    memory_wait: Annotated[float, Meta(ge=0, le=600)] = 10.0
    redaction: Literal["off", "gate"] = "off"
    secret_files: Literal["ask", "mask", "allow"] = "ask"
    sandbox: Literal["auto", "required", "off"] = "auto"
    sandbox_hosts: tuple[Word, ...] = ()
    sandbox_read: tuple[Word, ...] = ()
    shell_secrets: Annotated[str, Meta(min_length=1, max_length=2_000)] | None = None
    fsync: Literal["always", "durable", "never"] = "durable"
    telemetry: Literal["none", "jsonl", "otel"] = "none"

    def current(self) -> Settings:
        """These settings themselves, as a `Source` that never changes."""
        return self

    def offload_limit(self, tool: str) -> int | None:
        """How many characters a result of this tool may have before it is offloaded; None: no limit."""
        limit = self.offload_by_tool.get(tool, self.offload_characters)
        return None if limit == "never" else limit

    def edits_trigger(self, threshold: int) -> int:
        """The size at which the provider's own edits start, if requested; ``threshold`` is the window's."""
        return max(1, int(threshold * self.edits_trigger_share))


# -- the description of each setting ----------------------------------------------------------------


class Setting(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The description of one setting."""

    name: str
    says: str
    """What it does, in a sentence."""
    kind: Kind
    allowed: str
    """The allowed values, in words."""
    type: Any
    """Its type, with the limits of its values."""
    default: Any
    group: str = ""
    """The heading under which it is listed."""
    unit: str = ""
    stage: Stage = "stable"
    latched: bool = False
    """Whether it is read only once, when a session opens, because a change would alter bytes already sent or something
    opened with the session; all other settings may change while it runs."""
    needs: tuple[str, ...] = ()
    """Switches without which this one is off."""
    yields_to: tuple[str, ...] = ()
    """Switches that, when on, take over from this one."""


@cache
def by_name() -> Mapping[str, Setting]:
    """All settings by name, in the order of `Settings`."""
    texts = msgspec.toml.decode(Path(__file__).with_name("settings.toml").read_bytes())
    types = get_type_hints(Settings, include_extras=True)
    defaults = Settings()
    info = inspect.type_info(Settings)
    assert isinstance(info, inspect.StructType)
    described = {}
    group = ""
    for setting_field in info.fields:
        text = texts[setting_field.name]
        default = getattr(defaults, setting_field.name)
        # The first setting under a heading names it.
        group = text.get("group", group)
        kind, allowed = _allowed(setting_field.type, text.get("unit", ""))
        about = {**text, "name": setting_field.name, "kind": kind, "allowed": allowed, "group": group}
        fields = {**about, "type": types[setting_field.name], "default": default}
        described[setting_field.name] = msgspec.convert(fields, Setting)
    return MappingProxyType(described)


def all_settings() -> tuple[Setting, ...]:
    """All settings, in the order of `Settings`."""
    return tuple(by_name().values())


def _allowed(kind: inspect.Type, unit: str) -> tuple[Kind, str]:
    """The kind of a type's values, and the allowed values in words."""
    match kind:
        case inspect.BoolType():
            return "switch", "true or false"
        case inspect.IntType():
            return "whole number", f"a whole number ({unit}), {_range(kind)}"
        case inspect.FloatType():
            return "number", f"a number ({unit}), {_range(kind)}"
        case inspect.StrType():
            return "text", "a text"
        case inspect.LiteralType():
            return "choice", " or ".join(f'"{value}"' for value in kind.values)
        case inspect.UnionType():  # of another type and None
            return _allowed(
                next(option for option in kind.types if not isinstance(option, inspect.NoneType)), unit
            )
        case inspect.VarTupleType(item_type=entry):
            return "list", f"a list, each entry {_allowed(entry, unit)[1]}"
        case inspect.DictType(value_type=inspect.UnionType(types=values)):
            each = ", or ".join(_allowed(value, unit)[1] for value in values)
            return "table", f"a table of names, each with {each}"
    raise TypeError(f"{kind} is not a type for a setting")


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    """The limits of a number in words, without the maximum that all numbers share."""
    low = f"above {kind.gt:,}" if kind.gt is not None else f"{kind.ge:,} or more"
    if kind.lt is not None:
        return f"{low} and below {kind.lt:,}"
    return low if kind.le in (None, MOST) else f"{low} and at most {kind.le:,}"


def nearest(name: str) -> str | None:
    """The setting whose name is most similar to this one; None if none is similar."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name[:100].lower().replace("-", "_"), by_name(), n=1)), None)


def overruled(settings: Settings) -> Mapping[str, str]:
    """Switches that are on but have no effect → the switch that is the reason."""
    reasons: dict[str, str] = {}
    on = [
        setting
        for setting in all_settings()
        if setting.kind == "switch" and getattr(settings, setting.name)
    ]
    for switch in on:
        if reason := next((other for other in switch.needs if not getattr(settings, other)), None):
            reasons[switch.name] = reason
    in_charge = {switch.name for switch in on} - reasons.keys()
    for switch in on:
        if reason := next((other for other in switch.yields_to if other in in_charge), None):
            reasons.setdefault(switch.name, reason)
    return reasons


def in_force(settings: Settings) -> Settings:
    """The settings with every switch off that another one overrules.

    Pass the settings as they were set, not the result of an earlier call: a switch that yielded to another would then
    look as if it had been turned off.
    """
    reasons = overruled(settings)
    return structs.replace(settings, **dict.fromkeys(reasons, False)) if reasons else settings


# -- from several layers to one set of values -------------------------------------------------------


class SettingsLayer(Struct, frozen=True):
    """Values from one source."""

    origin: str
    """The source, in words a user can find it by: ``user file /home/…/settings.toml``."""
    values: Mapping[str, object]
    strict: bool = True
    """Whether an invalid value is an error; if not, it is ignored with a note."""


class Resolved(Struct, frozen=True):
    """Settings, the origin of each value, and notes for the user about how they were resolved."""

    settings: Settings
    origins: Mapping[str, str]
    """Setting → the origin of its value."""
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """What was wrong with ignored values; also included in the notes."""


_Clash = tuple[str, str, str]
"""Two settings whose values are valid separately but not together, and the rule they break."""


def resolve(layers: Iterable[SettingsLayer], notes: tuple[str, ...] = ()) -> Resolved:
    """Merge layers into settings, later ones over earlier ones; raises `SettingError`.

    An invalid value is an error in a strict layer; in any other layer it is ignored, with a note.
    """
    strict: dict[str, Any] = {}
    loose: dict[str, Any] = {}
    origins = dict.fromkeys(by_name(), DEFAULT)
    ignored = list[str]()
    for layer in layers:
        kept, other = (strict, loose) if layer.strict else (loose, strict)
        for name, value in layer.values.items():
            try:
                kept[name] = checked(name, value, layer.origin)
            except SettingError as error:
                if layer.strict:
                    raise
                ignored.append(f"{error} (ignored)")
                continue
            other.pop(name, None)
            origins[name] = layer.origin
    base = Settings(**strict)
    for clash in _clashes(base):
        raise SettingError(_told(clash, base, origins))
    settings, complaints = overlaid(base, loose, origins)
    ignored += [f"{complaint} (ignored)" for complaint in complaints]
    origins |= {name: DEFAULT for name in loose if getattr(settings, name) != loose[name]}
    return Resolved(settings, origins, (*notes, *ignored), tuple(ignored))


def overlaid(
    base: Settings, values: Mapping[str, Any], origins: Mapping[str, str]
) -> tuple[Settings, tuple[str, ...]]:
    """The base with checked values over it, except those that clash; and what is wrong with those.

    For values that must not stop a program: invalid ones are left out, and nothing is raised.
    """
    usable = dict(values)
    complaints: list[str] = []
    while True:
        settings = structs.replace(base, **usable) if usable else base
        clash = next(
            (clashing for clashing in _clashes(settings) if not usable.keys().isdisjoint(clashing[:2])),
            None,
        )
        if clash is None:
            return settings, tuple(complaints)
        complaints.append(_told(clash, settings, origins))
        for name in clash[:2]:
            usable.pop(name, None)


def checked(name: str, value: object, origin: str) -> Any:
    """The value converted to its setting's type; raises `SettingError` if it is invalid."""
    setting = by_name().get(name) if isinstance(name, str) else None
    if setting is None:
        raise unknown(name, origin)
    try:
        return msgspec.convert(value, setting.type)
    except (msgspec.ValidationError, ValueError):  # the latter for text that is not valid Unicode
        raise SettingError(
            f"{origin}: {name} = {shown(value)} cannot be used; it takes {setting.allowed}{_most(value)}"
        ) from None


def unknown(name: object, origin: str) -> SettingError:
    """The error for a setting that does not exist."""
    like = nearest(str(name))
    meant = f"did you mean {like}?" if like else "`sevenfold config` lists them all"
    return SettingError(f"{origin}: there is no setting {shown(name)}; {meant}")


def from_text(setting: Setting, text: str) -> object:
    """Parse a value written as plain text; if it cannot be parsed it stays text, and `checked` rejects it."""
    text = text.strip()
    try:
        match setting.kind:
            case "switch":
                return _WORDS.get(text.lower(), text)
            case "whole number":
                return int(text)
            case "number":
                return float(text)
            case "table":
                return _table(text)
            case "list":
                return [entry.strip() for entry in text.split(",") if entry.strip()]
    except ValueError:
        return text
    return text


def shown(value: object) -> str:
    """A value for a message: written as in a settings file, and shortened if it is long."""
    try:
        text = repr(value) if isinstance(value, float) else msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def _table(text: str) -> dict[str, object]:
    """Parse a table such as ``Bash=20_000, Read=never``."""
    entries = [entry.partition("=") for entry in text.split(",") if entry.strip()]
    if not all(equals for _, equals, _ in entries):
        raise ValueError(text)
    return {name.strip(): _number_or_word(value.strip()) for name, _, value in entries}


def _number_or_word(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        return text


def _most(value: object) -> str:
    too_large = isinstance(value, int | float) and value > MOST
    return f" and at most {MOST:,}" if too_large else ""


def _clashes(settings: Settings) -> Iterator[_Clash]:
    """Every rule about two settings that these settings break."""
    below = "the first must be below the second"
    shorter = "a preview must be shorter than what it stands for"
    by_tool = [limit for limit in settings.offload_by_tool.values() if limit != "never"]
    ordered = (
        ("size_target_tokens", "size_trigger_tokens", settings.size_trigger_tokens, below),
        ("pinned_keep", "pinned_trigger", settings.pinned_trigger, below),
        ("preview_bytes", "offload_characters", settings.offload_characters, shorter),
        ("preview_bytes", "offload_by_tool", min(by_tool, default=None), shorter),
        ("blocking_limit", "context_window", settings.context_window, below),
    )
    for first, second, limit, rule in ordered:
        value = getattr(settings, first)
        if value is not None and limit is not None and value >= limit:
            yield first, second, rule


def _told(clash: _Clash, settings: Settings, origins: Mapping[str, str]) -> str:
    *names, rule = clash
    values = [
        f"{name} = {shown(getattr(settings, name))} ({origins.get(name, 'as set')})" for name in names
    ]
    return f"{' and '.join(values)} cannot be used together: {rule}"


class Source(Protocol):
    """Provides the settings: `Settings` themselves, which never change, or something that follows files or flags."""

    def current(self) -> Settings:
        """The settings as of now, without blocking or failing; the same object while nothing changes."""


def latch(opened: Settings, now: Settings) -> Settings:
    """The settings a session uses: those of now, but latched ones as they were when it was opened."""
    if now is opened:
        return opened
    held = {setting.name: getattr(opened, setting.name) for setting in all_settings() if setting.latched}
    return structs.replace(now, **held)
