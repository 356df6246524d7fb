"""The stores of a server's users: each user of a tenant has one, with their sessions and memory.

Opening a store is cheap, and stores of one database share its connections, so only the most recently used are kept.
"""

from __future__ import annotations

import threading
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from sevenfold.errors import InputError
from sevenfold.ports import Store
from sevenfold.stores.files import private_folder, safe_name
from sevenfold.stores.home import Project
from sevenfold.stores.jsonl.store import JsonlStore
from sevenfold.stores.registry import open_store

MAX_STORES = 10_000


class UserStores:
    """The open stores of users; its methods may block and can be called from any thread."""

    def __init__(self, base: Path | str) -> None:
        """``base`` is a folder or the URL of a database."""
        self._base = base
        self._stores: dict[tuple[str, str], Store] = {}
        self._lock = threading.Lock()

    def of(self, tenant: str, user: str) -> Store:
        """The store of one user of a tenant."""
        with self._lock:
            store = self._stores.pop((tenant, user), None)
            if store is None:
                store = _opened_store(self._base, tenant, user)
            # Inserted again, it is the last: so the first store is the one that was not used for longest.
            self._stores[tenant, user] = store
            if len(self._stores) > MAX_STORES:
                # Sessions that are open can still use it: all stores share their connections.
                self._stores.pop(next(iter(self._stores))).close()
        return store

    def close(self) -> None:
        """Close all stores."""
        for store in self._stores.values():
            store.close()


def _opened_store(base: Path | str, tenant: str, user: str) -> Store:
    """The store of one user of a tenant, in which nothing of any other user can be seen."""
    text = str(base)
    if "://" not in text:
        folder = Project(Path(base) / "sessions").of_tenant(tenant).folder / "users" / safe_name(user)
        private_folder(folder)
        return JsonlStore(folder, tenant="", project=Project(folder))
    parts = urlsplit(text)
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    parameters |= {"tenant": tenant, "project": f"user:{user}", "end_user": user}
    store = open_store(urlunsplit(parts._replace(query=urlencode(parameters))))
    if store.tenant != tenant:
        raise InputError(
            f"the store {parts.scheme}:// does not separate tenants, so a server cannot use it; use a folder or "
            "postgresql://"
        )
    return store
