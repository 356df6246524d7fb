"""Tenants, tokens and budgets: in a file, and in PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.servers.postgres import OWNER
from sevenfold.doors.server.account_databases import open_accounts
from sevenfold.doors.server.accounts import NANO, Accounts, BudgetSpent, Caller, SpendingLimit, Tenant
from sevenfold.errors import InputError
from tests.stores.servers import postgres

SPENDERS = 50
Open = Callable[[], Accounts]


@pytest.fixture(params=["file", "postgres"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same accounts as often as is wanted: each time as another server would."""
    opened: list[Accounts] = []

    def open_again() -> Accounts:
        store = str(tmp_path) if request.param == "file" else postgres().url(OWNER, lease="9")
        opened.append(open_accounts(store))
        return opened[-1]

    yield open_again
    for accounts in opened:
        accounts.close()


@pytest.fixture
def name(tmp_path: Path) -> str:
    """A tenant that no other test has: the database is one for all."""
    return f"t {tmp_path.name}"


@pytest.mark.spec("S36.5")
def test_a_token_is_good_for_its_tenant_until_it_is_revoked(opening: Open, name: str) -> None:
    accounts = opening()
    accounts.keep_tenant(Tenant(name))
    token = accounts.make_token(name, label="backend")
    caller = opening().caller(token, "ann")
    assert caller is not None
    assert (caller.tenant.name, caller.user) == (name, "ann")
    [info] = accounts.tokens(name)
    assert (info.id, info.label, info.user) == (caller.token, "backend", None)
    head, secret = token[:20], token[21:]
    wrong = [
        f"{head}_{'A' * 43}",
        f"{head}_{secret[:-1]}",
        f"svf_{'0' * 16}_{secret}",
        secret,
        "",
        head,
        token + "x",
    ]
    assert [accounts.caller(text) for text in wrong] == [None] * len(wrong)
    assert accounts.revoke(info.id)
    assert not accounts.revoke(info.id)
    assert accounts.caller(token) is None


@pytest.mark.spec("S36.5")
def test_a_token_for_one_user_is_good_for_no_other(opening: Open, name: str) -> None:
    accounts = opening()
    accounts.keep_tenant(Tenant(name))
    token = accounts.make_token(name, user="ann")
    for user, found in (("ann", "ann"), ("", "ann")):
        caller = accounts.caller(token, user)
        assert caller is not None
        assert caller.user == found
    assert accounts.caller(token, "ben") is None
    assert accounts.remove_tenant(name)
    assert accounts.caller(token, "ann") is None


@pytest.mark.spec("S36.5")
def test_no_file_holds_a_token(tmp_path: Path) -> None:
    accounts = open_accounts(tmp_path)
    accounts.keep_tenant(Tenant("acme"))
    token = accounts.make_token("acme")
    accounts.close()
    secret = token[21:].encode()
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept
    assert not any(secret in path.read_bytes() for path in kept)
    assert {path.stat().st_mode & 0o077 for path in kept} == {0}


@pytest.mark.spec("S36.5")
@pytest.mark.parametrize("wrong", ["", "x" * 201, "a\x00b", "a\nb", "\ud800"])
def test_a_tenant_needs_a_name_that_can_be_written(tmp_path: Path, wrong: str) -> None:
    accounts = open_accounts(tmp_path)
    with pytest.raises(InputError):
        accounts.keep_tenant(Tenant(wrong))
    with pytest.raises(InputError, match="no tenant"):
        accounts.make_token("nobody")
    accounts.close()


@pytest.mark.spec("S36.6")
def test_what_is_reserved_at_the_same_time_never_exceeds_a_budget(opening: Open, name: str) -> None:
    servers = [opening(), opening()]
    tenant = Tenant(name, SpendingLimit(10.0))
    servers[0].keep_tenant(tenant)
    together = threading.Barrier(SPENDERS)

    def spend(number: int) -> str:
        together.wait()
        try:
            return servers[number % 2].reserve(Caller(tenant, f"user {number}"), NANO)
        except BudgetSpent:
            return ""

    with ThreadPoolExecutor(SPENDERS) as threads:
        reserved = [reservation for reservation in threads.map(spend, range(SPENDERS)) if reservation]
    assert len(reserved) == 10
    spending, _ = servers[0].spending(Caller(tenant))
    assert (spending.spent, spending.reserved) == (0.0, 10.0)
    for reservation in reserved:
        servers[0].settle(reservation, NANO // 2)
        servers[1].settle(reservation, NANO // 2)  # a second time changes nothing
    spending, _ = servers[0].spending(Caller(tenant))
    assert (spending.spent, spending.reserved) == (5.0, 0.0)
    with pytest.raises(BudgetSpent, match=r"the budget of this tenant is \$10.00: \$5.0000 are spent"):
        servers[0].reserve(Caller(tenant), 6 * NANO)
    assert servers[0].reserve(Caller(tenant), 5 * NANO)


@pytest.mark.spec("S36.6")
def test_without_the_condition_the_same_spenders_would_exceed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = open_accounts(tmp_path)
    tenant = Tenant("acme", SpendingLimit(10.0))
    accounts.keep_tenant(tenant)
    monkeypatch.setattr("sevenfold.doors.server.accounts._nano", lambda usd: 2**62)
    for _ in range(SPENDERS):
        accounts.reserve(Caller(tenant), NANO)
    assert accounts.spending(Caller(tenant))[0].reserved == 50.0
    accounts.close()


@pytest.mark.spec("S36.6")
def test_each_user_has_a_budget_of_their_own_and_a_refusal_reserves_nothing(
    opening: Open, name: str
) -> None:
    accounts = opening()
    tenant = Tenant(name, SpendingLimit(100.0), SpendingLimit(1.0))
    accounts.keep_tenant(tenant)
    ann = Caller(tenant, "ann")
    accounts.settle(accounts.reserve(ann, NANO), NANO)
    with pytest.raises(BudgetSpent, match="the user 'ann'"):
        accounts.reserve(ann, 1)
    accounts.reserve(Caller(tenant, "ben"), NANO)
    whole, own = accounts.spending(ann)
    assert (whole.spent, whole.reserved, own.spent, own.reserved) == (1.0, 1.0, 1.0, 0.0)


@pytest.mark.spec("S36.6")
def test_a_month_and_a_day_begin_anew(tmp_path: Path) -> None:
    times = [0.0]
    accounts = open_accounts(tmp_path)
    accounts._now = lambda: times[0]
    for per, seconds in (("day", 86_400), ("month", 31 * 86_400)):
        times[0] = 0.0
        tenant = Tenant(per, SpendingLimit.of(f"1/{per}"))
        accounts.keep_tenant(tenant)
        caller = Caller(tenant)
        late = accounts.reserve(caller, NANO)
        times[0] = seconds - 1.0
        with pytest.raises(BudgetSpent, match=f"a {per}"):
            accounts.reserve(caller, 1)
        times[0] = float(seconds)
        accounts.reserve(caller, NANO)
        accounts.settle(late, NANO)  # counts for when it was reserved
        assert accounts.spending(caller)[0].spent == 0.0
    accounts.close()


@pytest.mark.spec("S36.6")
def test_a_reservation_of_a_server_that_died_counts_as_spent(opening: Open, name: str) -> None:
    accounts = opening()
    tenant = Tenant(name, SpendingLimit(1.0))
    accounts.keep_tenant(tenant)
    caller = Caller(tenant, "ann")
    lost = accounts.reserve(caller, NANO)
    assert accounts.settle_lost(3_600.0) == 0
    assert accounts.settle_lost(-1.0) >= 1
    whole, own = accounts.spending(caller)
    assert (whole.spent, whole.reserved, own.spent) == (1.0, 0.0, 1.0)
    accounts.settle(lost, 0)
    assert accounts.spending(caller)[0].spent == 1.0


@pytest.mark.spec("S36.6")
@pytest.mark.parametrize("wrong", ["", "x", "-1", "1/year", "1e9", "1,5", "$", "9" * 12])
def test_a_budget_is_an_amount_and_a_period(wrong: str) -> None:
    assert [str(SpendingLimit.of(text)) for text in ("50", "$2.50/day", "1000/month")] == [
        "$50.00",
        "$2.50 a day",
        "$1,000.00 a month",
    ]
    with pytest.raises(InputError):
        SpendingLimit.of(wrong)


@pytest.mark.spec("S36.9")
def test_a_run_is_on_record_until_it_has_ended(opening: Open, name: str) -> None:
    accounts = opening()
    accounts.begin_run(name, "ann", "s")
    accounts.begin_run(name, "ann", "s")
    assert opening().runs().count((name, "ann", "s")) == 1
    assert accounts.has_run(name, "ann", "s")
    assert not accounts.has_run(name, "ben", "s")
    accounts.end_run(name, "ann", "s")
    assert (name, "ann", "s") not in accounts.runs()
