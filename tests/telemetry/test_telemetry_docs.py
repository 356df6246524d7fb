"""The page about telemetry says what is there: every event, every metric, every name of the conventions."""

from __future__ import annotations

import re
from pathlib import Path

import anthropic
import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.ports import Call
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.telemetry import attributes as names
from tests.telemetry.collecting import Collected
from tests.telemetry.making import SAMPLES, kinds, stamped

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "telemetry.md").read_text(encoding="utf-8")


def column(heading: str) -> list[str]:
    """What stands in the first column of a table, by the heading of that."""
    table = PAGE.split(f"\n| {heading} |")[1].split("\n\n")[0]
    return [name for row in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


def test_every_event_is_in_the_table_and_no_other():
    assert column("event") == [kind.__name__ for kind in kinds()]


def test_every_metric_is_in_the_table_and_no_other():
    collected = Collected()
    for event in SAMPLES:
        collected(stamped(event))
    assert sorted(column("metric")) == sorted(collected.measured())


def test_every_attribute_of_the_conventions_is_in_the_table():
    told = {value for value in vars(names).values() if isinstance(value, str)}
    told |= {*names.ALWAYS.values(), *names.REQUEST.values(), *names.RESPONSE.values()} - {names.TOKEN_TYPE}
    conventions = {value for value in told if value.startswith("gen_ai.")} - {names.TOKEN_TYPE}
    assert {name for name in column("attribute") if name.startswith("gen_ai.")} == conventions


@pytest.mark.parametrize("with_ours", [True, False])
def test_our_client_gets_no_second_span_from_the_sdk_and_a_program_s_own_does(with_ours):
    exporter, tracers = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    hello = {"role": "user", "content": "hello"}
    with (
        serve(Simulator()) as url,
        anthropic.Anthropic(
            api_key="simulated-key", base_url=url, open_telemetry={"tracer_provider": tracers}
        ) as sdk,
    ):
        if with_ours:
            body = {"model": "claude-sonnet-5-5", "max_tokens": 50, "messages": [hello]}
            AnthropicClient(sdk).ask(Call(msgspec.json.encode(body)))
        else:
            sdk.messages.create(
                model="claude-sonnet-5-5", max_tokens=50, messages=[{"role": "user", "content": "hello"}]
            )
    assert len(exporter.get_finished_spans()) == (0 if with_ours else 1)
