-- Grants the name to the token if it is free, or makes the lease last longer if
-- the token has it already.
--
-- $1 name, $2 token, $3 TTL in µs, $4 purpose, $5 whether a fence is wanted,
-- $6 how many fences are reserved beyond one, $7 how long to wait for a row that
-- a guard has locked, in ms: then error 55P03.
--
-- returns the row that was granted, or else the row that stood in the way. No
-- row, or one that stands in nobody's way, means that another was faster: ask
-- again.
--
-- "before" is as of the start of the statement, and only saves the write where
-- somebody holds the name. What decides is the last WHERE, by the row as it is
-- when it has been locked, and by the time at which it has been locked.
WITH waits AS MATERIALIZED (
	SELECT set_config('lock_timeout', $7::text, true) AS set -- ends with this transaction
), before AS (
	SELECT * FROM holdfast_lease WHERE name = $1
), mine AS (
	UPDATE holdfast_lease
	SET expires_at = greatest(expires_at, clock_timestamp() + $3::bigint * interval '1 microsecond')
	WHERE name = $1 AND token = $2 AND expires_at >= clock_timestamp()
	RETURNING *
), taken AS (
	INSERT INTO holdfast_lease AS lease (name, token, fence, fenced, since, expires_at, purpose)
	SELECT $1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $6::bigint, $5::boolean,
		clock_timestamp(), clock_timestamp() + $3::bigint * interval '1 microsecond', $4
	FROM waits
	WHERE waits.set IS NOT NULL
		AND NOT EXISTS (SELECT FROM mine)
		AND NOT EXISTS (SELECT FROM before WHERE token <> '' AND expires_at >= clock_timestamp())
	ON CONFLICT (name) DO UPDATE
	SET token = excluded.token, fenced = excluded.fenced, purpose = excluded.purpose,
		fence = greatest(lease.fence + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + $6::bigint,
		since = clock_timestamp(),
		expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond'
	WHERE (lease.token = '' OR lease.expires_at < clock_timestamp())
		AND coalesce((lease.withdrawn ->> excluded.token)::bigint
			< (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, true)
	RETURNING *
)
SELECT true AS granted, false AS withdrawn,
	name, token, fence, fenced, since, expires_at, purpose, clock_timestamp() AS now FROM mine
UNION ALL
SELECT true, false, name, token, fence, fenced, since, expires_at, purpose, clock_timestamp() FROM taken
UNION ALL
SELECT false,
	coalesce((withdrawn ->> $2)::bigint >= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, false),
	name, token, fence, fenced, since, expires_at, purpose, clock_timestamp()
FROM before
WHERE NOT EXISTS (SELECT FROM mine) AND NOT EXISTS (SELECT FROM taken)
