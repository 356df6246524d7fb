"""The sessions of a server as they are stored: what defines each, and what its log says. Everything here may block."""

from __future__ import annotations

import msgspec

from sevenfold.conversation.controls import control_fields
from sevenfold.conversation.resume import resume
from sevenfold.doors.server import definition as definitions
from sevenfold.doors.server import problems
from sevenfold.doors.server.accounts import Accounts, Caller
from sevenfold.doors.server.budget import most_nano, unpriced
from sevenfold.doors.server.definition import USUAL_ANSWER, SessionDefinition
from sevenfold.doors.server.live import SessionKey, Standing, standing
from sevenfold.doors.server.options import ServerOptions
from sevenfold.doors.server.problems import Problem
from sevenfold.doors.server.user_stores import UserStores
from sevenfold.errors import InputError, TranscriptMissing
from sevenfold.ports import Log, SessionInfo, Store
from sevenfold.profiles import find

DEFINITION = "server-session.json"
"""The file with the definition of a session."""
_CREATING_SECONDS = 5.0
"""How long to wait for another server that creates the same session."""


class StoredSessions:
    """All sessions, open or not."""

    def __init__(self, options: ServerOptions, accounts: Accounts) -> None:
        self._options = options
        self._accounts = accounts
        self._stores = UserStores(options.store)

    def store_of(self, tenant: str, user: str) -> Store:
        """The store with the sessions and the memory of one user of a tenant."""
        return self._stores.of(tenant, user)

    def definition_of(self, key: SessionKey) -> SessionDefinition:
        """The definition of a session; raises `Problem` if there is none."""
        raw = self.store_of(key.tenant, key.user).agent_files(key.name).read(DEFINITION)
        if raw is None:
            raise problems.no_session(key.name)
        try:
            return msgspec.json.decode(raw, type=SessionDefinition)
        except msgspec.MsgspecError as error:
            raise Problem(
                409,
                "session_too_new",
                f"this session was made by another server version ({error}); upgrade this server or create a new "
                "session",
            ) from error

    def create(self, key: SessionKey, definition: SessionDefinition, caller: Caller) -> bool:
        """Create a session; False if it exists already. Raises `Problem` if its definition differs."""
        _check_definition(definition, caller, self._options)
        folder = self.store_of(key.tenant, key.user).agent_files(key.name)
        with folder.lock(wait=_CREATING_SECONDS):
            raw = folder.read(DEFINITION)
            wanted = msgspec.json.encode(definition)
            if raw is None:
                folder.write(DEFINITION, wanted)
                return True
        if self.definition_of(key) == definition:
            return False
        raise Problem(
            409,
            "session_exists",
            f"session {key.name!r} exists with a different definition; choose another id",
        )

    def log_of(self, key: SessionKey) -> Log | None:
        """The log of a session, to be read; None if it has none yet."""
        try:
            return self.store_of(key.tenant, key.user).read(key.name)
        except TranscriptMissing:
            return None

    def recorded_standing(self, key: SessionKey) -> Standing:
        """The status of a session that is not open here, by its log."""
        definition = self.definition_of(key)
        log = self.log_of(key)
        if log is None:
            return Standing("idle")
        state = standing(resume(log), definition.client_tools)
        if state.status == "unfinished" and self._accounts.has_run(key.tenant, key.user, key.name):
            # Another server is working on it, or was when it died: then the next server resumes the run.
            return Standing("working")
        return state

    def listed(self, caller: Caller, since: float, limit: int) -> list[SessionInfo]:
        """The sessions of a user, newest first."""
        return list(self.store_of(caller.tenant.name, caller.user).sessions(since=since, limit=limit))

    def erase(self, key: SessionKey) -> None:
        """Delete a session permanently; raises `Problem` if there is none."""
        self.definition_of(key)
        self.store_of(key.tenant, key.user).erase(key.name)

    def close(self) -> None:
        """Close all stores."""
        self._stores.close()


def _check_definition(definition: SessionDefinition, caller: Caller, options: ServerOptions) -> None:
    """Raise `InputError` for a definition with which no run could be carried out here."""
    if options.models and definition.model not in options.models:
        raise InputError(
            f"this server has no model {definition.model!r}; choose one of: {', '.join(options.models)}"
        )
    definitions.tools_of(definition, options.tools)  # raises for tools that are not here
    profile = find(definition.model)
    # Those who leave max_tokens out get the usual number, or what the model can write.
    if definition.max_tokens > profile.max_output and definition.max_tokens != USUAL_ANSWER:
        raise InputError(
            f"{definition.model} writes {profile.max_output:,} tokens at most, so max_tokens cannot be "
            f"{definition.max_tokens:,}"
        )
    answer = min(definition.max_tokens, profile.max_output)
    control_fields(
        profile, definition.effort or None, None, answer
    )  # raises for an effort that it does not take
    has_budget = caller.tenant.budget is not None or caller.tenant.user_budget is not None
    smallest_request = msgspec.json.encode({"model": definition.model, "max_tokens": definition.max_tokens})
    if has_budget and most_nano(smallest_request) is None:
        raise InputError(unpriced(definition.model))
