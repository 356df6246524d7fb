-- Each statement begins with its name. All run with the tenant's number in `sevenfold.tenant`.

-- submit --
-- The row and its place in the queue are one statement: there is never one without the other.
WITH added AS (
    INSERT INTO sevenfold.job (tenant_name, project, end_user, key, session, spec)
    VALUES (%(tenant_name)s, %(project)s, %(end_user)s, %(key)s, %(session)s, %(spec)s)
    ON CONFLICT (tenant, project, key) DO NOTHING
    RETURNING id, tenant)
SELECT sevenfold.procrastinate_defer_jobs_v1(ARRAY[ROW(
    'sevenfold', 'sevenfold.job', 0, %(line)s::text, NULL, jsonb_build_object('tenant', tenant, 'job', id),
    to_timestamp(%(due)s))::sevenfold.procrastinate_job_to_defer_v1])
FROM added

-- requeue --
SELECT sevenfold.procrastinate_defer_jobs_v1(ARRAY[ROW(
    'sevenfold', 'sevenfold.job', 0, %(line)s::text, NULL, jsonb_build_object('tenant', tenant, 'job', id),
    to_timestamp(%(due)s))::sevenfold.procrastinate_job_to_defer_v1])
FROM sevenfold.job
WHERE tenant = %(tenant)s AND project = %(project)s AND key = %(key)s AND status IN ('waiting', 'running')
    AND NOT EXISTS (SELECT FROM sevenfold.procrastinate_jobs AS place WHERE place.args @> jsonb_build_object('job', job.id))

-- job --
SELECT key, spec, status, attempt, result, error, extract(epoch FROM submitted)::float8,
    coalesce(extract(epoch FROM began), 0)::float8, coalesce(extract(epoch FROM ended), 0)::float8
FROM sevenfold.job WHERE tenant = %(tenant)s AND project = %(project)s AND key = %(key)s

-- jobs --
SELECT key, spec, status, attempt, result, error, extract(epoch FROM submitted)::float8,
    coalesce(extract(epoch FROM began), 0)::float8, coalesce(extract(epoch FROM ended), 0)::float8
FROM sevenfold.job
WHERE tenant = %(tenant)s AND project = %(project)s
    AND (%(session)s::text IS NULL OR session = %(session)s) AND (%(status)s::text IS NULL OR status = %(status)s)
ORDER BY id DESC LIMIT %(limit)s

-- cancel --
-- One that waits ends here. Its place in the queue is removed too, so that those behind it need not wait for its time.
WITH cancelled AS (
    UPDATE sevenfold.job
    SET cancelling = true,
        error = CASE status WHEN 'waiting' THEN 'cancelled' ELSE error END,
        ended = CASE status WHEN 'waiting' THEN clock_timestamp() ELSE ended END,
        status = CASE status WHEN 'waiting' THEN 'cancelled' ELSE status END
    WHERE tenant = %(tenant)s AND project = %(project)s AND key = %(key)s AND status IN ('waiting', 'running')
    RETURNING id, status, queued),
removed AS (
    DELETE FROM sevenfold.procrastinate_jobs AS place USING cancelled
    WHERE cancelled.status = 'cancelled' AND place.status = 'todo' AND place.lock = %(line)s
        AND place.args @> jsonb_build_object('job', cancelled.id))
SELECT sevenfold.procrastinate_cancel_job_v1(queued, true, false) FROM cancelled WHERE status = 'running'

-- forget --
WITH old AS (
    DELETE FROM sevenfold.job
    WHERE tenant = %(tenant)s AND project = %(project)s AND ended < to_timestamp(%(before)s)
    RETURNING id)
SELECT count(*) FROM old

-- schedule --
WITH kept AS (
    INSERT INTO sevenfold.job_schedule AS known (tenant_name, project, end_user, name, schedule)
    VALUES (%(tenant_name)s, %(project)s, %(end_user)s, %(name)s, %(schedule)s)
    ON CONFLICT (tenant, project, name)
    DO UPDATE SET schedule = excluded.schedule, end_user = excluded.end_user, turn = known.turn + 1
    RETURNING id, tenant, turn)
SELECT sevenfold.procrastinate_defer_jobs_v1(ARRAY[ROW(
    'sevenfold', 'sevenfold.tick', 1, NULL, NULL,
    jsonb_build_object('tenant', tenant, 'schedule', id, 'turn', turn, 'due', %(due)s::float8),
    to_timestamp(%(due)s))::sevenfold.procrastinate_job_to_defer_v1])
FROM kept

-- unschedule --
DELETE FROM sevenfold.job_schedule WHERE tenant = %(tenant)s AND project = %(project)s AND name = %(name)s

-- schedules --
SELECT schedule FROM sevenfold.job_schedule WHERE tenant = %(tenant)s AND project = %(project)s ORDER BY name COLLATE "C"

-- now --
SELECT extract(epoch FROM clock_timestamp())::float8

-- tick --
SELECT tenant_name, project, end_user, schedule, extract(epoch FROM clock_timestamp())::float8
FROM sevenfold.job_schedule WHERE tenant = %(tenant)s AND id = %(schedule)s AND turn = %(turn)s

-- next tick --
-- Only who moves the turn on puts the next tick into the queue.
WITH moved AS (
    UPDATE sevenfold.job_schedule SET turn = turn + 1
    WHERE tenant = %(tenant)s AND id = %(schedule)s AND turn = %(turn)s
    RETURNING id, tenant, turn)
SELECT sevenfold.procrastinate_defer_jobs_v1(ARRAY[ROW(
    'sevenfold', 'sevenfold.tick', 1, NULL, NULL,
    jsonb_build_object('tenant', tenant, 'schedule', id, 'turn', turn, 'due', %(due)s::float8),
    to_timestamp(%(due)s))::sevenfold.procrastinate_job_to_defer_v1])
FROM moved

-- look --
SELECT key, spec, status, attempt, result, error, extract(epoch FROM submitted)::float8,
    coalesce(extract(epoch FROM began), 0)::float8, coalesce(extract(epoch FROM ended), 0)::float8,
    tenant_name, project, end_user, fence, cancelling
FROM sevenfold.job WHERE tenant = %(tenant)s AND id = %(job)s FOR UPDATE

-- limits --
SELECT pg_advisory_xact_lock(hashtext('sevenfold jobs'))

-- running --
SELECT count(*) FILTER (WHERE tenant = %(tenant)s), count(*) FILTER (WHERE model = %(model)s)
FROM sevenfold.job_slot WHERE job <> %(job)s

-- pace --
-- All three by the time at which the transaction began, so that the pace holds for the times that are recorded.
SELECT extract(epoch FROM next - now())::float8 FROM sevenfold.pace WHERE model = %(model)s

-- set pace --
INSERT INTO sevenfold.pace (model, next) VALUES (%(model)s, now() + %(pace)s * interval '1 s')
ON CONFLICT (model) DO UPDATE SET next = excluded.next

-- begin --
WITH begun AS (
    UPDATE sevenfold.job
    SET status = 'running', fence = fence + 1, queued = %(queued)s, began = now(), attempt = %(attempt)s
    WHERE tenant = %(tenant)s AND id = %(job)s
    RETURNING id, fence, began),
slot AS (
    INSERT INTO sevenfold.job_slot (job, fence, tenant, model)
    SELECT id, fence, %(tenant)s, %(model)s FROM begun
    ON CONFLICT (job) DO UPDATE SET fence = excluded.fence)
SELECT fence, extract(epoch FROM began)::float8 FROM begun

-- end --
-- A worker that another one has taken the job over from changes nothing.
WITH ended AS (
    UPDATE sevenfold.job
    SET status = CASE WHEN cancelling AND %(status)s = 'waiting' THEN 'cancelled' ELSE %(status)s END,
        result = %(result)s, error = %(error)s, attempt = attempt + %(counts)s,
        ended = CASE WHEN cancelling OR %(status)s <> 'waiting' THEN clock_timestamp() END
    WHERE tenant = %(tenant)s AND id = %(job)s AND fence = %(fence)s AND status = 'running'
    RETURNING id, fence, status),
freed AS (
    DELETE FROM sevenfold.job_slot AS slot USING ended WHERE slot.job = ended.id AND slot.fence = ended.fence)
SELECT status FROM ended

-- drop --
-- One that ended without being begun again, after its worker died: too many attempts, or it was cancelled meanwhile.
WITH ended AS (
    UPDATE sevenfold.job
    SET status = %(status)s, error = %(error)s, fence = fence + 1, attempt = %(attempt)s, ended = clock_timestamp()
    WHERE tenant = %(tenant)s AND id = %(job)s
    RETURNING id),
freed AS (
    DELETE FROM sevenfold.job_slot AS slot USING ended WHERE slot.job = ended.id)
SELECT id FROM ended
