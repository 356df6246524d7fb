-- What a job is and what became of it. Row-level security shows each transaction the jobs of one tenant. The queue, which
-- every worker reads, knows a job only by its number and the number of its tenant.

CREATE TABLE sevenfold.job (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant      integer NOT NULL DEFAULT current_setting('sevenfold.tenant')::integer,
    tenant_name text NOT NULL,
    project     text NOT NULL,
    end_user    text NOT NULL,
    key         text NOT NULL,
    session     text NOT NULL,
    spec        bytea NOT NULL,
    status      text NOT NULL DEFAULT 'waiting',
    attempt     integer NOT NULL DEFAULT 0,
    fence       bigint NOT NULL DEFAULT 0,         -- how often it was begun; only who began it last may end it
    cancelling  boolean NOT NULL DEFAULT false,
    queued      bigint,                            -- its number in the queue, since it was begun
    result      bytea,
    error       text NOT NULL DEFAULT '',
    submitted   timestamptz NOT NULL DEFAULT clock_timestamp(),
    began       timestamptz,
    ended       timestamptz,
    UNIQUE (tenant, project, key)
);
CREATE INDEX job_of_session ON sevenfold.job (tenant, project, session, id);

CREATE TABLE sevenfold.job_schedule (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant      integer NOT NULL DEFAULT current_setting('sevenfold.tenant')::integer,
    tenant_name text NOT NULL,
    project     text NOT NULL,
    end_user    text NOT NULL,
    name        text NOT NULL,
    schedule    bytea NOT NULL,
    turn        bigint NOT NULL DEFAULT 0,         -- counts its changes: a tick of an earlier one does nothing
    UNIQUE (tenant, project, name)
);

-- The jobs that run, for the limits. The limits of a model hold across tenants, so this is not hidden from any of them.
CREATE TABLE sevenfold.job_slot (
    job    bigint PRIMARY KEY,
    fence  bigint NOT NULL,
    tenant integer NOT NULL,
    model  text NOT NULL
);

-- When the next job of a model may begin, for all tenants.
CREATE TABLE sevenfold.pace (
    model text PRIMARY KEY,
    next  timestamptz NOT NULL
);

DO $$
DECLARE
    named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['job', 'job_schedule'] LOOP
        EXECUTE format('ALTER TABLE sevenfold.%s ENABLE ROW LEVEL SECURITY', named);
        EXECUTE format('ALTER TABLE sevenfold.%s FORCE ROW LEVEL SECURITY', named);
        EXECUTE format(
            'CREATE POLICY of_tenant ON sevenfold.%s USING (tenant = (SELECT current_setting(''sevenfold.tenant'')::integer))',
            named);
    END LOOP;
END $$;
