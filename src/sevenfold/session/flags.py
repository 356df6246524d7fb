"""Settings that a fleet changes remotely: OpenFeature flags that override the settings of this machine.

Every setting that may change while a session runs is also a flag, ``sevenfold.offload`` and so on. It is read through
the provider that the application registered with OpenFeature for the domain ``sevenfold``, or as the default. Without
a provider nothing changes; `in_memory` registers one that needs no server. Flags override every other source. They
are read in the background: a session uses the last copy, however long the provider takes and even if it fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sevenfold.clock import SystemClock
from sevenfold.errors import SettingError
from sevenfold.ports import Clock
from sevenfold.settings import Setting, Settings, Source, all_settings, by_name, checked, overlaid, unknown

if TYPE_CHECKING:
    from openfeature.client import OpenFeatureClient
    from openfeature.evaluation_context import EvaluationContext
    from openfeature.flag_evaluation import FlagEvaluationDetails

DOMAIN = "sevenfold"
PREFIX = "sevenfold."

REFRESH_SECONDS = 30.0
"""The age at which the last copy of the flags is read again."""

_UNSET = -1
"""Passed to a provider as the default of a number that is not set; no setting accepts it as a value."""

Report = Callable[[str], None]
Start = Callable[[Callable[[], None]], None]


def in_memory(values: Mapping[str, object]) -> OpenFeatureClient:
    """Set flags within this process, by the names of their settings; call it again to change them.

    Registers a provider with OpenFeature for the domain ``sevenfold``.
    """
    api = _openfeature()
    from openfeature.provider.in_memory_provider import InMemoryFlag, InMemoryProvider

    for name in values:
        if name not in by_name():
            raise unknown(name, "flag")
    flags = {PREFIX + name: InMemoryFlag("set", {"set": value}) for name, value in values.items()}
    api.set_provider_and_wait(InMemoryProvider(flags), DOMAIN)
    client: OpenFeatureClient = api.get_client(DOMAIN)
    return client


class FlagSource:
    """The settings of another source, overridden by flags."""

    def __init__(
        self,
        base: Source,
        client: OpenFeatureClient | None = None,
        *,
        seconds: float = REFRESH_SECONDS,
        context: EvaluationContext | None = None,
        report: Report | None = None,
        clock: Clock | None = None,
        start: Start | None = None,
    ) -> None:
        """``context`` tells the provider whom it evaluates flags for; ``start`` runs a job in the background."""
        self._base = base
        self._client: OpenFeatureClient = client or _openfeature().get_client(DOMAIN)
        self._seconds = seconds
        self._context = context
        self._report = report
        self._clock = clock or SystemClock()
        self._start = start or _in_a_thread
        self._reading = threading.Lock()
        self._read_at: float | None = None
        self.flags: Mapping[str, Any] = {}
        """The values of the settings that flags override, as last read."""
        self._told: frozenset[str] = frozenset()
        self._settings = base.current()
        self._made_of: tuple[Settings, Mapping[str, Any]] = (self._settings, self.flags)

    def current(self) -> Settings:
        """The settings with the last copy of the flags; starts reading the flags again if the copy is too old."""
        age = None if self._read_at is None else self._clock.now() - self._read_at
        due = age is None or not 0 <= age < self._seconds
        if due and self._reading.acquire(blocking=False):
            try:
                self._start(self._read_and_release)
            except RuntimeError:  # no thread could be started, so keep using the last copy
                self._reading.release()
        base = self._base.current()
        flags = self.flags
        if self._made_of[0] is not base or self._made_of[1] is not flags:
            self._settings, complaints = overlaid(base, flags, dict.fromkeys(flags, "flag"))
            self._made_of = (base, flags)
            self._tell(complaints)
        return self._settings

    def refresh(self) -> None:
        """Read the flags now and wait for them, for a program that needs them from the start."""
        with self._reading:
            self._read()

    def _read_and_release(self) -> None:
        try:
            self._read()
        finally:
            self._reading.release()

    def _read(self) -> None:
        """Read every flag; one with an unusable value keeps its previous one."""
        status = self._client.get_provider_status().value
        if status in ("NOT_READY", "FATAL"):
            self._tell_new([f"flags cannot be read: their provider is {status}. They stay as they were"])
            return
        self._read_at = self._clock.now()
        base = self._base.current()
        flags: dict[str, Any] = {}
        problems: list[str] = []
        for setting in all_settings():
            if setting.latched:
                continue
            try:
                flags |= self._evaluated(setting, getattr(base, setting.name))
            except SettingError as error:
                problems.append(f"{error}. It stays as it was")
                if setting.name in self.flags:
                    flags[setting.name] = self.flags[setting.name]
        if flags != self.flags:
            self.flags = flags
        self._tell_new(problems)

    def _evaluated(self, setting: Setting, value: Any) -> Mapping[str, Any]:
        """The value of a flag, by setting; empty if the flag does not exist or equals the setting."""
        unset: Any = "" if setting.kind == "text" else _UNSET
        key = PREFIX + setting.name
        default = unset if value is None else value
        details = self._details(setting, key, default)
        flag_value = tuple(details.value) if isinstance(details.value, list) else details.value
        if details.error_code == "FLAG_NOT_FOUND" or (not details.error_code and flag_value == default):
            return {}
        if details.error_code:
            why = details.error_message or details.error_code
            raise SettingError(f"flag {key}: cannot be used ({why}); it takes {setting.allowed}")
        return {setting.name: checked(setting.name, details.value, f"flag {key}")}

    def _details(self, setting: Setting, key: str, default: Any) -> FlagEvaluationDetails[Any]:
        client = self._client
        context = self._context
        match setting.kind:
            case "switch":
                return client.get_boolean_details(key, default, context)
            case "whole number":
                return client.get_integer_details(key, default, context)
            case "number":
                details = client.get_float_details(key, float(default), context)
                # A provider that reads JSON treats 5 as a whole number.
                return client.get_integer_details(key, default, context) if details.error_code else details
            case "table" | "list":
                # Flags use lists where settings use tuples.
                plain = list(default) if setting.kind == "list" else default
                return client.get_object_details(key, plain, context)
        return client.get_string_details(key, default, context)

    def _tell_new(self, problems: Iterable[str]) -> None:
        """Report problems that were not already reported for the previous read."""
        told_before = self._told
        self._told = frozenset(problems)
        self._tell(sorted(self._told - told_before))

    def _tell(self, problems: Iterable[str]) -> None:
        if self._report:
            for problem in problems:
                self._report(problem)


def _in_a_thread(job: Callable[[], None]) -> None:
    threading.Thread(target=job, name="sevenfold-flags", daemon=True).start()


def _openfeature() -> Any:
    """OpenFeature's API, imported only when it is used."""
    try:
        from openfeature import api
    except ModuleNotFoundError as error:
        raise SettingError("reading flags needs OpenFeature: pip install 'sevenfold[flags]'") from error
    return api
