-- A batch of owners' writes in one round trip and one transaction. There is one statement for each kind of
-- batch, composed of the parts in the files commit_*.sql: a part that a batch does not need costs
-- time even with empty arrays. A lone step recorded by the largest took four times as long.
--
-- `me` has the workers of the batch that have their leases. It locks their rows for key share, in one
-- order: renewing a lease does not wait, taking it over does, so a worker that adopts a run sees
-- everything that its old owner wrote. A run is written if its own worker is in `me`. The attachments are checked
-- before anything is written; a commit whose attachment is not as expected is `refused` whole. Every
-- part writes for the runs in `own` alone. No row is changed twice: folding the batch ensures that.
-- What commits attach to pipelines is written after this, in the same transaction (pipeline_writes.sql).
--
-- Rows are looked up by `LATERAL (… LIMIT 1)`, so that the plan, which is made once and while
-- tables may be empty, can only use their primary keys.

-- name: commit_records
WITH {me}, {found_owned}, {record}, {nothing_ready}
{answer};

-- name: commit_runs
WITH {me}, {patience}, {given_moves}, {nothing_refused}, {given_messages}, {given_starts},
     {found}, {locked}, {moved}, {own}, {ended}, {record},
     {fresh}, {post}, {woken}, {born}, {born_data}, {raised_and_born}, {inbox}, {ready}
{answer};

-- name: commit_attached
WITH {me}, {patience}, {given_moves}, {given_messages}, {given_starts},
     {given_effects}, {refused}, {found}, {locked_with_effects}, {moved}, {own}, {ended}, {record},
     {fresh}, {post}, {woken}, {born}, {born_data}, {raised_and_born}, {inbox}, {ready},
     {effects}
{answer};

-- name: commit_cached
WITH {me}, {patience}, {given_moves}, {given_messages}, {given_starts},
     {given_effects}, {refused}, {found}, {locked_with_effects}, {moved}, {own}, {ended}, {record},
     {fresh}, {post}, {woken}, {born}, {born_data}, {raised_and_born}, {inbox}, {ready},
     {effects}, {cached}
{answer};

-- part: answer
-- One row for the batch, which counts the records that were written: one that is missing there was
-- written by an earlier try, at another time. Then the runs that were not written.
SELECT NULL AS uid, NULL AS state, NULL AS fence, NULL AS inbox, NULL AS worker, false AS refused,
       false AS leased, (SELECT queues FROM ready) AS queues, :now AS at,
       (SELECT count(*) FROM record) AS recorded
UNION ALL
SELECT f.uid, f.state, f.fence, f.inbox, f.worker, f.refused,
       f.own_worker IN (SELECT worker FROM me), NULL, :now, 0
FROM found f WHERE NOT EXISTS (SELECT 1 FROM own o WHERE o.uid = f.uid)

-- part: ready
ready AS (
    SELECT array_agg(DISTINCT queue) AS queues FROM (
        SELECT queue, state FROM woken UNION ALL SELECT queue, state FROM moved) x
    WHERE x.state = 'ready'
)

-- part: nothing_ready
ready AS (
    SELECT NULL::text[] AS queues
)
