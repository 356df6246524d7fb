"""Tenants, their tokens and their budgets.

A token is shown once, when it is made; what is kept is a digest of its secret part. A budget is a limit on dollars, for
a tenant as a whole and for each of its users, for ever or for each day or month (UTC). What an answer may cost at most
is reserved before a model is asked, and settled by what it did cost: so however many ask at the same time, on however
many servers, a limit is never exceeded. A reservation whose server died counts as spent, because the call may have been
made.

Amounts are kept in billionths of a dollar, as whole numbers.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, cast, get_args

from msgspec import Struct

from sevenfold.errors import InputError, NotPermitted

Period = Literal["ever", "month", "day"]
Rows = list[tuple[Any, ...]]
TOKEN_PREFIX = "svf"
NANO = 1_000_000_000
NO_LIMIT = 2**62
LOST_AFTER = 7_200.0
"""Seconds after which a reservation counts as spent: no call takes that long, so its server died."""
MOST_NAME = 200
_SECRET_BYTES = 32
_TOKEN = re.compile(rf"{TOKEN_PREFIX}_([0-9a-f]{{16}})_([A-Za-z0-9_-]{{43}})")
_BUDGET = re.compile(r"\$?(\d{1,9}(?:\.\d{1,6})?)(?:/(day|month))?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NOBODY = hashlib.sha256(b"").hexdigest()


class BudgetSpent(NotPermitted):
    """A budget is used up."""


class SpendingLimit(Struct, frozen=True):
    """A limit on what is spent."""

    usd: float
    per: Period = "ever"

    @classmethod
    def of(cls, text: str) -> SpendingLimit:
        """Read ``50``, ``50/month`` or ``2.50/day``."""
        matched = _BUDGET.fullmatch(text.strip())
        if matched is None:
            raise InputError(f"a budget is an amount such as 50, 50/month or 2.50/day, got {text!r}")
        return cls(float(matched[1]), cast("Period", matched[2] or "ever"))

    def __str__(self) -> str:
        return f"${self.usd:,.2f}" + ("" if self.per == "ever" else f" a {self.per}")


class Tenant(Struct, frozen=True):
    """Whose sessions a server keeps."""

    name: str
    budget: SpendingLimit | None = None
    """The limit for all its users together."""
    user_budget: SpendingLimit | None = None
    """The limit for each user."""


class Caller(Struct, frozen=True):
    """On whose behalf a request is made."""

    tenant: Tenant
    user: str = ""
    """The tenant's own name for its user; empty: the tenant itself."""
    token: str = ""
    """The id of the token."""


class TokenInfo(Struct, frozen=True):
    """A token, as far as it can be shown."""

    id: str
    tenant: str
    user: str | None
    """The only user it is good for; None: any."""
    label: str
    made: float


class SpentBudget(Struct, frozen=True):
    """What was spent of a budget."""

    budget: SpendingLimit | None
    spent: float
    reserved: float
    """Dollars that calls under way may cost at most."""


class Transaction(Protocol):
    """Statements that are carried out together or not at all."""

    def __call__(self, statement: str, /, **values: Any) -> Rows:
        """Run a statement with its ``:named`` values; returns its rows."""


class AccountDatabase(Protocol):
    """A database for accounts."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction, which an exception undoes."""

    def close(self) -> None:
        """Give back connections."""


class Accounts:
    """The accounts in one database, which several servers may share. All methods may block."""

    def __init__(self, database: AccountDatabase, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now = now

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    # -- tenants and tokens ----------------------------------------------------------------------

    def keep_tenant(self, tenant: Tenant) -> None:
        """Add a tenant, or change its budgets; raises `InputError` for a name that cannot be used."""
        check_name("tenant", tenant.name)
        if not tenant.name:
            raise InputError("a tenant needs a name")
        with self._database.transaction() as run:
            run(
                "INSERT INTO tenant (name, nano, per, user_nano, user_per) "
                "VALUES (:name, :nano, :per, :user_nano, :user_per) ON CONFLICT (name) DO UPDATE SET "
                "nano = excluded.nano, per = excluded.per, user_nano = excluded.user_nano, "
                "user_per = excluded.user_per",
                name=tenant.name,
                **_columns(tenant),
            )

    def tenant(self, name: str) -> Tenant | None:
        """A tenant by name."""
        with self._database.transaction() as run:
            rows = run(f"{_TENANTS} WHERE name = :name", name=name)
        return _tenant(rows[0]) if rows else None

    def tenants(self) -> Sequence[Tenant]:
        """All tenants, by name."""
        with self._database.transaction() as run:
            return [_tenant(row) for row in run(f"{_TENANTS} ORDER BY name")]

    def remove_tenant(self, name: str) -> bool:
        """Remove a tenant with its tokens; what it spent stays on record. Its sessions are not touched."""
        with self._database.transaction() as run:
            run("DELETE FROM token WHERE tenant = :name", name=name)
            return bool(run("DELETE FROM tenant WHERE name = :name RETURNING name", name=name))

    def make_token(self, tenant: str, *, user: str | None = None, label: str = "") -> str:
        """Make a token; the text that is returned is kept nowhere."""
        for what, name in (("user", user or ""), ("label", label)):
            check_name(what, name)
        identity = secrets.token_hex(8)
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        with self._database.transaction() as run:
            if not run("SELECT 1 FROM tenant WHERE name = :name", name=tenant):
                raise InputError(
                    f"there is no tenant {tenant!r}; add it first: sevenfold tenants add {tenant}"
                )
            run(
                "INSERT INTO token (id, tenant, digest, for_user, label, made) "
                "VALUES (:id, :tenant, :digest, :user, :label, :made)",
                id=identity,
                tenant=tenant,
                digest=_digest(secret),
                user=user,
                label=label,
                made=self._now(),
            )
        return f"{TOKEN_PREFIX}_{identity}_{secret}"

    def tokens(self, tenant: str) -> Sequence[TokenInfo]:
        """The tokens of a tenant, the oldest first."""
        with self._database.transaction() as run:
            rows = run(
                "SELECT id, tenant, for_user, label, made FROM token WHERE tenant = :tenant ORDER BY made, id",
                tenant=tenant,
            )
        return [TokenInfo(*row) for row in rows]

    def revoke(self, token: str) -> bool:
        """Make a token worthless, given its id or the whole of it; False if there is none."""
        matched = _TOKEN.fullmatch(token)
        with self._database.transaction() as run:
            return bool(
                run("DELETE FROM token WHERE id = :id RETURNING id", id=matched[1] if matched else token)
            )

    def caller(self, token: str, user: str = "") -> Caller | None:
        """The caller with this token, on behalf of a user of its tenant; None if the token is not valid."""
        matched = _TOKEN.fullmatch(token)
        rows: Rows = []
        if matched is not None:
            with self._database.transaction() as run:
                rows = run(
                    "SELECT token.digest, token.for_user, name, nano, per, user_nano, user_per "
                    "FROM token JOIN tenant ON tenant.name = token.tenant WHERE token.id = :id",
                    id=matched[1],
                )
        digest = rows[0][0] if rows else _NOBODY
        # Also where there is no such token, so that the time says nothing about which ids there are.
        right = hmac.compare_digest(_digest(matched[2] if matched else ""), digest)
        if not rows or not right or matched is None:
            return None
        only = rows[0][1]
        if only is not None and user not in ("", only):
            return None
        return Caller(_tenant(rows[0][2:]), user if only is None else only, matched[1])

    # -- budgets ---------------------------------------------------------------------------------

    def reserve(self, caller: Caller, nano: int) -> str:
        """Reserve what a call may cost at most; returns the reservation's id, or raises `BudgetSpent`."""
        reservation = secrets.token_hex(16)
        with self._database.transaction() as run:
            periods: list[str] = []
            for holder, budget in _holders(caller):
                period = _period(budget, self._now())
                periods.append(period)
                ledger = {"tenant": caller.tenant.name, "holder": holder, "period": period}
                run(
                    "INSERT INTO ledger (tenant, holder, period, spent, reserved) "
                    "VALUES (:tenant, :holder, :period, 0, 0) ON CONFLICT DO NOTHING",
                    **ledger,
                )
                # The condition is looked at again once the row is ours: two servers cannot both find room.
                fits = run(
                    "UPDATE ledger SET reserved = reserved + :nano WHERE tenant = :tenant AND holder = :holder "
                    "AND period = :period AND spent + reserved + :nano <= :most RETURNING spent",
                    nano=nano,
                    most=_nano(budget.usd) if budget is not None else NO_LIMIT,
                    **ledger,
                )
                if not fits and budget is not None:
                    ((spent, reserved),) = run(
                        "SELECT spent, reserved FROM ledger WHERE tenant = :tenant AND holder = :holder "
                        "AND period = :period",
                        **ledger,
                    )
                    raise BudgetSpent(_refusal(holder, budget, spent, reserved, nano))
            run(
                "INSERT INTO reservation (id, tenant, holder, period, user_period, nano, made) "
                "VALUES (:id, :tenant, :holder, :period, :user_period, :nano, :made)",
                id=reservation,
                tenant=caller.tenant.name,
                holder=_of_user(caller.user),
                period=periods[0],
                user_period=periods[1],
                nano=nano,
                made=self._now(),
            )
        return reservation

    def settle(self, reservation: str, nano: int) -> None:
        """Replace a reservation by what was spent; one that is settled already stays so."""
        with self._database.transaction() as run:
            for row in run(
                "DELETE FROM reservation WHERE id = :id RETURNING tenant, holder, period, user_period, nano",
                id=reservation,
            ):
                _settle(run, row, nano)

    def settle_lost(self, older_than: float = LOST_AFTER) -> int:
        """Count the reservations of servers that died as spent; returns how many there were."""
        with self._database.transaction() as run:
            lost = run(
                "DELETE FROM reservation WHERE made < :before "
                "RETURNING tenant, holder, period, user_period, nano",
                before=self._now() - older_than,
            )
            for row in lost:
                _settle(run, row, row[4])
        return len(lost)

    def spending(self, caller: Caller) -> tuple[SpentBudget, SpentBudget]:
        """What the tenant has spent in the current period of its budget, and what the user has."""
        found: list[SpentBudget] = []
        with self._database.transaction() as run:
            for holder, budget in _holders(caller):
                rows = run(
                    "SELECT spent, reserved FROM ledger WHERE tenant = :tenant AND holder = :holder "
                    "AND period = :period",
                    tenant=caller.tenant.name,
                    holder=holder,
                    period=_period(budget, self._now()),
                )
                spent, reserved = rows[0] if rows else (0, 0)
                found.append(SpentBudget(budget, spent / NANO, reserved / NANO))
        return found[0], found[1]

    # -- runs ------------------------------------------------------------------------------------

    def begin_run(self, tenant: str, user: str, session: str) -> None:
        """Note that a run of a session has started, so that another server resumes it if this one dies."""
        with self._database.transaction() as run:
            run(
                "INSERT INTO run (tenant, for_user, session, began) VALUES (:tenant, :user, :session, :began) "
                "ON CONFLICT (tenant, for_user, session) DO UPDATE SET began = excluded.began",
                tenant=tenant,
                user=user,
                session=session,
                began=self._now(),
            )

    def end_run(self, tenant: str, user: str, session: str) -> None:
        """Note that a session is not worked on any more."""
        with self._database.transaction() as run:
            run(
                "DELETE FROM run WHERE tenant = :tenant AND for_user = :user AND session = :session",
                tenant=tenant,
                user=user,
                session=session,
            )

    def has_run(self, tenant: str, user: str, session: str) -> bool:
        """Whether a session is being worked on, or is to be."""
        with self._database.transaction() as run:
            rows = run(
                "SELECT 1 FROM run WHERE tenant = :tenant AND for_user = :user AND session = :session",
                tenant=tenant,
                user=user,
                session=session,
            )
        return bool(rows)

    def runs(self) -> Sequence[tuple[str, str, str]]:
        """Tenant, user and session of each run that has not ended, on any server, including servers that died."""
        with self._database.transaction() as run:
            rows = run("SELECT tenant, for_user, session FROM run ORDER BY began")
        return [(tenant, user, session) for tenant, user, session in rows]

    def check(self) -> None:
        """Raise an error if the database cannot be reached."""
        with self._database.transaction() as run:
            run("SELECT 1")


def check_name(kind: str, name: str) -> None:
    """Raise `InputError` for a name with characters that no name has, or too many."""
    if len(name) > MOST_NAME:
        raise InputError(f"the name of a {kind} may have {MOST_NAME} characters, got {len(name)}")
    if _CONTROL.search(name):
        raise InputError(f"the name of a {kind} has control characters: {name!r:.60}")


_TENANTS = "SELECT name, nano, per, user_nano, user_per FROM tenant"


def _columns(tenant: Tenant) -> dict[str, Any]:
    both = {"": tenant.budget, "user_": tenant.user_budget}
    columns: dict[str, Any] = {}
    for prefix, budget in both.items():
        columns[f"{prefix}nano"] = None if budget is None else _nano(budget.usd)
        columns[f"{prefix}per"] = None if budget is None else budget.per
    return columns


def _tenant(row: Sequence[Any]) -> Tenant:
    name, nano, per, user_nano, user_per = row
    return Tenant(name, _budget(nano, per), _budget(user_nano, user_per))


def _budget(nano: int | None, per: str | None) -> SpendingLimit | None:
    if nano is None or per not in get_args(Period):
        return None
    return SpendingLimit(nano / NANO, cast("Period", per))


def _nano(usd: float) -> int:
    return min(NO_LIMIT, math.floor(usd * NANO))


def _holders(caller: Caller) -> Iterator[tuple[str, SpendingLimit | None]]:
    """The holders of the ledgers that a call is entered in, always in this order: then no two calls can deadlock."""
    yield "", caller.tenant.budget
    yield _of_user(caller.user), caller.tenant.user_budget


def _of_user(user: str) -> str:
    return f"user:{user}"


def _period(budget: SpendingLimit | None, now: float) -> str:
    """The name of the current period."""
    if budget is None or budget.per == "ever":
        return "ever"
    date = datetime.fromtimestamp(now, UTC).date().isoformat()
    return date if budget.per == "day" else date[:7]


def _settle(run: Transaction, row: Sequence[Any], spent: int) -> None:
    tenant, holder, period, user_period, reserved = row
    for owner, when in (("", period), (holder, user_period)):
        run(
            "UPDATE ledger SET reserved = reserved - :reserved, spent = spent + :spent "
            "WHERE tenant = :tenant AND holder = :holder AND period = :period",
            reserved=reserved,
            spent=spent,
            tenant=tenant,
            holder=owner,
            period=when,
        )


def _refusal(holder: str, budget: SpendingLimit, spent: int, reserved: int, wanted: int) -> str:
    whose = f"the user {holder.removeprefix('user:')!r}" if holder.removeprefix("user:") else "this tenant"
    return (
        f"the budget of {whose} is {budget}: ${spent / NANO:,.4f} are spent, ${reserved / NANO:,.4f} reserved for "
        f"calls under way, and the next call may cost up to ${wanted / NANO:,.4f}. Ask whoever runs the server "
        "for more, or choose a smaller max_tokens"
    )


def _digest(secret: str) -> str:
    # The secret has 256 random bits: no dictionary helps against its digest, so none that is slow on purpose is needed.
    return hashlib.sha256(secret.encode()).hexdigest()
