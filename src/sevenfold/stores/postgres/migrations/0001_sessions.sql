-- Row-level security shows each transaction the rows of one tenant: the one whose number it put into the setting
-- `sevenfold.tenant`. Without that setting a query fails; there is no tenant that stands for everybody.

CREATE TABLE sevenfold.tenant (
    id   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE
);

-- A process that holds leases. It renews one row, however many sessions it has open.
CREATE TABLE sevenfold.worker (
    id      uuid PRIMARY KEY,
    host    text NOT NULL,
    pid     integer NOT NULL,
    expires timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The log of a session or of one of its branches: its end, and its lease. No index contains what an append changes, so
-- that PostgreSQL replaces the row in place.
CREATE TABLE sevenfold.log (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant   integer NOT NULL DEFAULT current_setting('sevenfold.tenant')::integer,
    project  text NOT NULL,
    session  text NOT NULL,
    branch   text NOT NULL DEFAULT '',
    origin   bigint,                                -- the log whose first lines this branch begins with
    start    bigint NOT NULL DEFAULT 0,             -- the position of its first own line
    size     bigint NOT NULL,                       -- the position of its next line
    fence    bigint NOT NULL DEFAULT 0,
    holder   uuid,                                  -- the worker with the lease; NULL: it is free
    opening  uuid,                                  -- which call of `open` got the lease
    modified timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant, project, session, branch)
) WITH (fillfactor = 70);

CREATE TABLE sevenfold.line (
    log      bigint NOT NULL,
    position bigint NOT NULL,
    tenant   integer NOT NULL DEFAULT current_setting('sevenfold.tenant')::integer,
    raw      bytea NOT NULL,                        -- byte for byte as appended, its line end included
    PRIMARY KEY (log, position)
) PARTITION BY HASH (log);

-- What the queries of a log look for: digests of the marks that its lines bear.
CREATE TABLE sevenfold.mark (
    log      bigint NOT NULL,
    name     bigint NOT NULL,
    position bigint NOT NULL,
    tenant   integer NOT NULL DEFAULT current_setting('sevenfold.tenant')::integer,
    PRIMARY KEY (log, name, position)
) PARTITION BY HASH (log);

-- Everything that is replaced as a whole: notes, results, indexes, the files of agents, memory.
CREATE TABLE sevenfold.file (
    tenant   integer NOT NULL DEFAULT current_setting('sevenfold.tenant')::integer,
    area     text COLLATE "C" NOT NULL,
    name     text COLLATE "C" NOT NULL,
    content  bytea NOT NULL,
    PRIMARY KEY (tenant, area, name)
);

CREATE TABLE sevenfold.message (
    sequence  bigint GENERATED ALWAYS AS IDENTITY,
    tenant    integer NOT NULL DEFAULT current_setting('sevenfold.tenant')::integer,
    project   text NOT NULL,
    sender    text NOT NULL,
    id        text NOT NULL,
    recipient text NOT NULL,
    body      bytea,                                -- NULL: it has arrived
    PRIMARY KEY (tenant, project, sender, id)
);
CREATE INDEX message_waiting ON sevenfold.message (tenant, project, recipient, sequence) WHERE body IS NOT NULL;

-- Locks that are not leases of a session. A row that nobody holds any more is removed.
CREATE TABLE sevenfold.lock (
    tenant  integer NOT NULL DEFAULT current_setting('sevenfold.tenant')::integer,
    name    text NOT NULL,
    holder  uuid NOT NULL,
    taking  uuid NOT NULL,
    PRIMARY KEY (tenant, name)
);

DO $$
DECLARE
    named text;
BEGIN
    FOR number IN 0..7 LOOP
        FOREACH named IN ARRAY ARRAY['line', 'mark'] LOOP
            EXECUTE format(
                'CREATE TABLE sevenfold.%1$s_%2$s PARTITION OF sevenfold.%1$s FOR VALUES WITH (MODULUS 8, REMAINDER %2$s)',
                named, number);
            -- The policy of the whole table does not hold for queries of a partition, so those get no rows at all.
            EXECUTE format('ALTER TABLE sevenfold.%s_%s ENABLE ROW LEVEL SECURITY', named, number);
            EXECUTE format('ALTER TABLE sevenfold.%s_%s FORCE ROW LEVEL SECURITY', named, number);
        END LOOP;
    END LOOP;
    FOREACH named IN ARRAY ARRAY['log', 'line', 'mark', 'file', 'message', 'lock'] LOOP
        EXECUTE format('ALTER TABLE sevenfold.%s ENABLE ROW LEVEL SECURITY', named);
        -- Also for the role that owns the tables, because small installations have no other.
        EXECUTE format('ALTER TABLE sevenfold.%s FORCE ROW LEVEL SECURITY', named);
        EXECUTE format(
            'CREATE POLICY of_tenant ON sevenfold.%s USING (tenant = (SELECT current_setting(''sevenfold.tenant'')::integer))',
            named);
    END LOOP;
END $$;

ALTER TABLE sevenfold.tenant ENABLE ROW LEVEL SECURITY;
ALTER TABLE sevenfold.tenant FORCE ROW LEVEL SECURITY;
CREATE POLICY by_name ON sevenfold.tenant USING (name = (SELECT current_setting('sevenfold.tenant_name')));
