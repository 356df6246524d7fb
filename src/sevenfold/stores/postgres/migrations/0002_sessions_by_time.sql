-- Sessions are listed by the time they were modified. An index on that time would change with every append, and keep
-- PostgreSQL from replacing the row in place; one on the ten minutes it lies in changes every ten minutes at most.
ALTER TABLE sevenfold.log ADD COLUMN active timestamptz
    GENERATED ALWAYS AS (date_bin('10 minutes', modified, '2000-01-01 00:00:00+00'::timestamptz)) STORED;
CREATE INDEX log_active ON sevenfold.log (tenant, project, active DESC) WHERE branch = '';
