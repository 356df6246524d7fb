-- Each statement begins with its name. All run with the tenant's number in `sevenfold.tenant`.

-- tenant --
WITH new AS (
    INSERT INTO sevenfold.tenant (name) VALUES (%(name)s) ON CONFLICT DO NOTHING RETURNING id)
SELECT id FROM new UNION ALL SELECT id FROM sevenfold.tenant WHERE name = %(name)s

-- beat --
INSERT INTO sevenfold.worker (id, host, pid, expires)
VALUES (%(worker)s, %(host)s, %(pid)s, now() + %(seconds)s * interval '1 s')
ON CONFLICT (id) DO UPDATE SET expires = excluded.expires

-- sweep workers --
DELETE FROM sevenfold.worker WHERE expires < now() - interval '1 day'

-- end worker --
DELETE FROM sevenfold.worker WHERE id = %(worker)s

-- create log --
INSERT INTO sevenfold.log (project, session, branch, origin, start, size)
VALUES (%(project)s, %(session)s, %(branch)s, %(origin)s, %(start)s, %(start)s)
ON CONFLICT (tenant, project, session, branch) DO NOTHING

-- lease state --
SELECT fence, holder IS NULL OR NOT EXISTS (
    SELECT FROM sevenfold.worker WHERE worker.id = log.holder AND worker.expires > now())
FROM sevenfold.log
WHERE tenant = %(tenant)s AND project = %(project)s AND session = %(session)s AND branch = %(branch)s

-- lease --
WITH alive AS (
    INSERT INTO sevenfold.worker (id, host, pid, expires)
    VALUES (%(worker)s, %(host)s, %(pid)s, now() + %(seconds)s * interval '1 s')
    ON CONFLICT (id) DO UPDATE SET expires = excluded.expires)
UPDATE sevenfold.log SET fence = fence + 1, holder = %(worker)s, opening = %(opening)s
WHERE tenant = %(tenant)s AND project = %(project)s AND session = %(session)s AND branch = %(branch)s
    -- Whether the holder lives was looked at before: after waiting for another opener, this statement would see the
    -- log as it is then, but the workers as they were when it began, and so without the new holder. The fence tells.
    -- A call whose answer was lost with its connection finds that it has the lease already.
    AND (%(take)s OR opening = %(opening)s OR (%(free)s AND fence = %(seen)s))
RETURNING id, origin, start, size, fence

-- holder --
SELECT worker.host, worker.pid FROM sevenfold.log JOIN sevenfold.worker ON worker.id = log.holder
WHERE tenant = %(tenant)s AND project = %(project)s AND session = %(session)s AND branch = %(branch)s

-- release --
UPDATE sevenfold.log SET holder = NULL WHERE id = %(log)s AND fence = %(fence)s

-- log --
SELECT id, origin, start, size FROM sevenfold.log
WHERE tenant = %(tenant)s AND project = %(project)s AND session = %(session)s AND branch = %(branch)s

-- log by id --
SELECT id, origin, start, size FROM sevenfold.log WHERE id = %(log)s

-- state --
SELECT fence, size FROM sevenfold.log WHERE id = %(log)s

-- append --
WITH held AS (
    UPDATE sevenfold.log SET size = size + %(bytes)s, modified = now()
    WHERE id = %(log)s AND fence = %(fence)s AND size = %(at)s
    RETURNING 1),
lines AS (
    INSERT INTO sevenfold.line (log, position, raw)
    SELECT %(log)s, position, raw FROM held, unnest(%(positions)s::bigint[], %(lines)s::bytea[]) AS new (position, raw)),
marks AS (
    INSERT INTO sevenfold.mark (log, name, position)
    SELECT %(log)s, name, position FROM held, unnest(%(names)s::bigint[], %(marked)s::bigint[]) AS new (name, position))
SELECT count(*) FROM held

-- append line --
-- The same for one line, which is nearly every append: without arrays it costs two thirds.
WITH held AS (
    UPDATE sevenfold.log SET size = size + %(bytes)s, modified = now()
    WHERE id = %(log)s AND fence = %(fence)s AND size = %(at)s
    RETURNING 1),
lines AS (
    INSERT INTO sevenfold.line (log, position, raw)
    SELECT %(log)s, %(at)s, %(line)s FROM held),
marks AS (
    INSERT INTO sevenfold.mark (log, name, position)
    SELECT %(log)s, unnest(%(names)s::bigint[]), %(at)s FROM held)
SELECT count(*) FROM held

-- lines --
SELECT position, raw FROM sevenfold.line WHERE log = %(log)s AND position >= %(start)s ORDER BY position LIMIT %(most)s

-- last lines --
SELECT position, raw FROM sevenfold.line WHERE log = %(log)s AND position < %(before)s
ORDER BY position DESC LIMIT %(most)s

-- lines with text --
SELECT position, raw FROM sevenfold.line
WHERE log = %(log)s AND position < %(before)s AND position(%(text)s::bytea IN raw) > 0
ORDER BY position DESC LIMIT %(most)s

-- marked lines --
SELECT position, raw FROM sevenfold.mark JOIN sevenfold.line USING (log, position)
WHERE mark.log = %(log)s AND mark.name = %(name)s AND mark.position < %(before)s
ORDER BY mark.position DESC LIMIT %(most)s

-- line end --
SELECT 1 FROM (
    SELECT position + length(raw) AS ending FROM sevenfold.line
    WHERE log = %(log)s AND position < %(position)s ORDER BY position DESC LIMIT 1) AS last
WHERE ending = %(position)s

-- branches --
SELECT branch FROM sevenfold.log WHERE tenant = %(tenant)s AND project = %(project)s AND session = %(session)s AND branch <> '' ORDER BY branch

-- sessions --
-- The order is that of `modified`; `active` lets the index give the newest rows without sorting all of them.
SELECT session, extract(epoch FROM modified)::float8, size FROM sevenfold.log
WHERE tenant = %(tenant)s AND project = %(project)s AND branch = '' AND size > 0 AND modified >= to_timestamp(%(since)s)
    AND active >= date_bin('10 minutes', to_timestamp(%(since)s), '2000-01-01 00:00:00+00'::timestamptz)
ORDER BY active DESC, modified DESC, session LIMIT %(most)s

-- logs to erase --
SELECT log.id, EXISTS (
    SELECT FROM sevenfold.worker WHERE worker.id = log.holder AND worker.expires > now())
FROM sevenfold.log WHERE tenant = %(tenant)s AND project = %(project)s AND session = %(session)s FOR UPDATE OF log

-- erase logs --
DELETE FROM sevenfold.log WHERE id = ANY(%(logs)s)

-- erase lines --
DELETE FROM sevenfold.line WHERE log = ANY(%(logs)s)

-- erase marks --
DELETE FROM sevenfold.mark WHERE log = ANY(%(logs)s)

-- erase files --
DELETE FROM sevenfold.file WHERE tenant = %(tenant)s AND area >= %(below)s AND area < %(above)s RETURNING 1

-- new session --
INSERT INTO sevenfold.log (project, session, size) VALUES (%(project)s, %(session)s, 0)
ON CONFLICT (tenant, project, session, branch) DO UPDATE SET size = log.size
RETURNING id, size, EXISTS (SELECT FROM sevenfold.worker WHERE worker.id = log.holder AND worker.expires > now())

-- import lines --
WITH lines AS (
    INSERT INTO sevenfold.line (log, position, raw)
    SELECT %(log)s, position, raw FROM unnest(%(positions)s::bigint[], %(lines)s::bytea[]) AS new (position, raw))
INSERT INTO sevenfold.mark (log, name, position)
SELECT %(log)s, name, position FROM unnest(%(names)s::bigint[], %(marked)s::bigint[]) AS new (name, position)

-- set size --
UPDATE sevenfold.log SET size = %(size)s, modified = now(), fence = fence + 1 WHERE id = %(log)s

-- content --
SELECT content FROM sevenfold.file
WHERE tenant = %(tenant)s AND area = %(area)s AND name = %(name)s AND length(content) <= %(most)s

-- put --
WITH held AS MATERIALIZED (
    SELECT FROM sevenfold.log WHERE id = %(writer)s::bigint AND fence = %(fence)s::bigint FOR SHARE),
put AS (
    INSERT INTO sevenfold.file (area, name, content)
    SELECT %(area)s, %(name)s, %(content)s WHERE %(writer)s::bigint IS NULL OR EXISTS (SELECT FROM held)
    ON CONFLICT (tenant, area, name) DO UPDATE SET content = excluded.content
    RETURNING 1)
SELECT count(*) FROM put

-- keep --
WITH held AS MATERIALIZED (
    SELECT FROM sevenfold.log WHERE id = %(writer)s::bigint AND fence = %(fence)s::bigint FOR SHARE),
allowed AS MATERIALIZED (
    SELECT 1 WHERE %(writer)s::bigint IS NULL OR EXISTS (SELECT FROM held)),
new AS (
    INSERT INTO sevenfold.file (area, name, content)
    SELECT %(area)s, %(name)s, %(content)s FROM allowed
    ON CONFLICT (tenant, area, name) DO NOTHING
    RETURNING 1)
SELECT EXISTS (SELECT FROM allowed), EXISTS (SELECT FROM new),
    EXISTS (SELECT FROM sevenfold.file WHERE tenant = %(tenant)s AND area = %(area)s AND name = %(name)s AND content = %(content)s)

-- add line --
WITH held AS MATERIALIZED (
    SELECT FROM sevenfold.log WHERE id = %(writer)s::bigint AND fence = %(fence)s::bigint FOR SHARE),
put AS (
    INSERT INTO sevenfold.file (area, name, content)
    SELECT %(area)s, %(name)s, %(line)s WHERE %(writer)s::bigint IS NULL OR EXISTS (SELECT FROM held)
    ON CONFLICT (tenant, area, name) DO UPDATE SET content =
        CASE WHEN length(file.content) = 0 OR get_byte(file.content, length(file.content) - 1) = 10
        THEN file.content ELSE file.content || '\x0a'::bytea END || excluded.content
    RETURNING 1)
SELECT count(*) FROM put

-- remove --
WITH held AS MATERIALIZED (
    SELECT FROM sevenfold.log WHERE id = %(writer)s::bigint AND fence = %(fence)s::bigint FOR SHARE),
allowed AS MATERIALIZED (
    SELECT 1 WHERE %(writer)s::bigint IS NULL OR EXISTS (SELECT FROM held)),
removed AS (
    DELETE FROM sevenfold.file WHERE tenant = %(tenant)s AND area = %(area)s AND name = %(name)s AND EXISTS (SELECT FROM allowed))
SELECT count(*) FROM allowed

-- names --
SELECT name FROM sevenfold.file WHERE tenant = %(tenant)s AND area = %(area)s AND name >= %(below)s AND name < %(above)s ORDER BY name

-- lock --
WITH alive AS (
    INSERT INTO sevenfold.worker (id, host, pid, expires)
    VALUES (%(worker)s, %(host)s, %(pid)s, now() + %(seconds)s * interval '1 s')
    ON CONFLICT (id) DO UPDATE SET expires = excluded.expires)
INSERT INTO sevenfold.lock (name, holder, taking) VALUES (%(name)s, %(worker)s, %(taking)s)
ON CONFLICT (tenant, name) DO UPDATE SET holder = excluded.holder, taking = excluded.taking
WHERE lock.taking = excluded.taking OR NOT EXISTS (
    SELECT FROM sevenfold.worker WHERE worker.id = lock.holder AND worker.expires > now())
RETURNING 1

-- unlock --
DELETE FROM sevenfold.lock WHERE tenant = %(tenant)s AND name = %(name)s AND taking = %(taking)s

-- send --
WITH held AS MATERIALIZED (
    SELECT FROM sevenfold.log WHERE id = %(writer)s::bigint AND fence = %(fence)s::bigint FOR SHARE),
allowed AS MATERIALIZED (
    SELECT 1 WHERE %(writer)s::bigint IS NULL OR EXISTS (SELECT FROM held)),
known AS (
    SELECT body IS NULL AS arrived FROM sevenfold.message
    WHERE tenant = %(tenant)s AND project = %(project)s AND sender = %(sender)s AND id = %(id)s),
room AS (
    SELECT 1 WHERE %(limit)s > (
        SELECT count(*) FROM sevenfold.message
        WHERE tenant = %(tenant)s AND project = %(project)s AND recipient = %(recipient)s AND body IS NOT NULL)),
new AS (
    INSERT INTO sevenfold.message (project, sender, id, recipient, body)
    SELECT %(project)s, %(sender)s, %(id)s, %(recipient)s, %(body)s FROM allowed, room
    WHERE NOT EXISTS (SELECT FROM known)
    ON CONFLICT (tenant, project, sender, id) DO NOTHING
    RETURNING sequence)
SELECT EXISTS (SELECT FROM allowed), (SELECT arrived FROM known), EXISTS (SELECT FROM room),
    (SELECT sequence FROM new)

-- forget ids --
DELETE FROM sevenfold.message WHERE tenant = %(tenant)s AND project = %(project)s AND sequence <= %(sequence)s AND body IS NULL

-- waiting --
SELECT body FROM sevenfold.message
WHERE tenant = %(tenant)s AND project = %(project)s AND recipient = %(recipient)s AND body IS NOT NULL
ORDER BY sequence LIMIT %(most)s

-- acknowledge --
WITH held AS MATERIALIZED (
    SELECT FROM sevenfold.log WHERE id = %(writer)s::bigint AND fence = %(fence)s::bigint FOR SHARE),
allowed AS MATERIALIZED (
    SELECT 1 WHERE %(writer)s::bigint IS NULL OR EXISTS (SELECT FROM held)),
arrived AS (
    UPDATE sevenfold.message SET body = NULL
    FROM allowed, unnest(%(senders)s::text[], %(ids)s::text[]) AS done (sender, id)
    WHERE tenant = %(tenant)s AND project = %(project)s AND message.sender = done.sender AND message.id = done.id)
SELECT count(*) FROM allowed
