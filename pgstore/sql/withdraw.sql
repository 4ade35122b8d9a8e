-- Frees the name if the token holds it, and has the token refused for a while.
-- The note is in the row that an acquire has to lock: one that is under way at
-- the same time either sees it, or is seen here and undone.
--
-- $1 name, $2 token, $3 for how long it is refused, in µs
--
-- returns 1 mine, 2 gone, 3 taken. Those who listen are told when it commits.
WITH before AS (
	SELECT token, expires_at FROM holdfast_lease WHERE name = $1 FOR NO KEY UPDATE
), written AS (
	INSERT INTO holdfast_lease AS lease (name, token, fence, fenced, since, expires_at, purpose, withdrawn)
	SELECT $1, '', 0, false, clock_timestamp(), clock_timestamp(), '',
		jsonb_build_object($2::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $3::bigint)
	FROM (SELECT count(*) FROM before) AS locked_first
	ON CONFLICT (name) DO UPDATE
	SET token = CASE lease.token WHEN $2 THEN '' ELSE lease.token END,
		purpose = CASE lease.token WHEN $2 THEN '' ELSE lease.purpose END,
		withdrawn = excluded.withdrawn || (
			SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(lease.withdrawn)
			WHERE value::bigint >= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AND key <> $2)
	RETURNING token, expires_at, CASE token WHEN '' THEN pg_notify('holdfast', name)::text END
)
SELECT CASE
	WHEN EXISTS (SELECT FROM before WHERE token = $2 AND token <> '' AND expires_at >= clock_timestamp()) THEN 1
	WHEN EXISTS (SELECT FROM written WHERE token <> '' AND expires_at >= clock_timestamp()) THEN 3
	ELSE 2 END
