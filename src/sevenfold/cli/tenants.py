"""`sevenfold tenants`: who may use a server, with which tokens, and for how much."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sevenfold.cli.serve import store_of
from sevenfold.cli.text import clean, not_installed, write
from sevenfold.errors import InputError

if TYPE_CHECKING:
    from sevenfold.doors.server.accounts import Accounts


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("action", nargs="?", choices=tuple(_ACTIONS), default="list")
    command.add_argument("name", nargs="?", metavar="NAME")
    command.add_argument("--store", metavar="STORE")
    command.add_argument("--budget", metavar="USD[/month|/day]")
    command.add_argument("--user-budget", metavar="USD[/month|/day]")
    command.add_argument("--user", metavar="USER")
    command.add_argument("--label", default="")


def run(options: argparse.Namespace) -> int:
    """Carry out the action; returns the exit code."""
    try:
        import starlette  # noqa: F401
    except ModuleNotFoundError as error:
        raise not_installed("server", "server", error) from error
    from sevenfold.doors.server.account_databases import open_accounts

    if options.action != "list" and not options.name:
        missing = "the id of a token" if options.action == "revoke" else "a tenant"
        raise InputError(f"name {missing}: sevenfold tenants {options.action} NAME")
    accounts = open_accounts(store_of(options))
    try:
        return _ACTIONS[options.action](accounts, options)
    finally:
        accounts.close()


def _list(accounts: Accounts, options: argparse.Namespace) -> int:
    from sevenfold.doors.server.accounts import Caller

    tenants = [tenant for tenant in accounts.tenants() if options.name in (None, tenant.name)]
    if options.name and not tenants:
        raise _nobody(options.name)
    if not tenants:
        write("There are no tenants yet; sevenfold tenants add NAME makes one.\n")
    for tenant in tenants:
        spending, _ = accounts.spending(Caller(tenant))
        budget = "no budget" if tenant.budget is None else f"of {tenant.budget}"
        user_budget = "" if tenant.user_budget is None else f", {tenant.user_budget} for each user"
        write(f"{clean(tenant.name)}: ${spending.spent:,.4f} spent {budget}{user_budget}\n")
        for token in accounts.tokens(tenant.name):
            created = datetime.fromtimestamp(token.made, UTC).date().isoformat()
            user = "" if token.user is None else f" for {clean(token.user)}"
            write(f"  token {token.id}{user}, made {created} {clean(token.label)}".rstrip() + "\n")
    return 0


def _add(accounts: Accounts, options: argparse.Namespace) -> int:
    from sevenfold.doors.server.accounts import SpendingLimit, Tenant

    existing = accounts.tenant(options.name)
    budget = existing.budget if existing else None
    user_budget = existing.user_budget if existing else None
    if options.budget is not None:
        budget = None if options.budget == "none" else SpendingLimit.of(options.budget)
    if options.user_budget is not None:
        user_budget = None if options.user_budget == "none" else SpendingLimit.of(options.user_budget)
    accounts.keep_tenant(Tenant(options.name, budget, user_budget))
    write(f"{clean(options.name)}: {'changed' if existing else 'added'}\n")
    if existing is None:
        write(f"Now make a token: sevenfold tenants token {clean(options.name)}\n")
    return 0


def _token(accounts: Accounts, options: argparse.Namespace) -> int:
    # Alone on its line, and nothing else, so that a script can take it.
    write(f"{accounts.make_token(options.name, user=options.user, label=options.label)}\n")
    return 0


def _revoke(accounts: Accounts, options: argparse.Namespace) -> int:
    if not accounts.revoke(options.name):
        raise InputError("there is no such token; sevenfold tenants lists the ids of all")
    write("revoked\n")
    return 0


def _remove(accounts: Accounts, options: argparse.Namespace) -> int:
    if not accounts.remove_tenant(options.name):
        raise _nobody(options.name)
    write(f"{clean(options.name)}: removed with all tokens; the sessions are still there\n")
    return 0


def _nobody(name: str) -> InputError:
    return InputError(f"there is no tenant {name!r}; sevenfold tenants lists all")


_ACTIONS: Mapping[str, Callable[[Accounts, argparse.Namespace], int]] = {
    "list": _list,
    "add": _add,
    "token": _token,
    "revoke": _revoke,
    "remove": _remove,
}
