"""Sessions in PostgreSQL, for programs that run on several machines; see `sevenfold.stores.postgres.store`."""
