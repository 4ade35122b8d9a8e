-- Makes leases last longer, never shorter. It changes no column of a key, so a
-- guard on the row does not stop it.
--
-- $1 names, $2 tokens, $3 TTLs in µs: arrays of the same length
--
-- returns a row for each: its place from 1, and 1 mine, 2 gone, 3 taken.
WITH asked AS (
	SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS a (name, token, ttl, place)
), longest AS ( -- a row can be updated once only
	SELECT name, token, max(ttl) AS ttl FROM asked GROUP BY name, token
), extended AS (
	UPDATE holdfast_lease AS lease
	SET expires_at = greatest(lease.expires_at, clock_timestamp() + longest.ttl * interval '1 microsecond')
	FROM longest
	WHERE lease.name = longest.name AND lease.token = longest.token AND lease.expires_at >= clock_timestamp()
	RETURNING lease.name, lease.token
)
SELECT asked.place, CASE
	WHEN (asked.name, asked.token) IN (SELECT name, token FROM extended) THEN 1
	WHEN before.name IS NULL OR before.token IN ('', asked.token) OR before.expires_at < clock_timestamp() THEN 2
	ELSE 3 END
FROM asked
LEFT JOIN holdfast_lease AS before ON before.name = asked.name
