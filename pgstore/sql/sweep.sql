-- Removes some rows that nobody needs any more: names not granted for a day,
-- whose next fence is larger all the same, since fences are at least the clock,
-- and slots that need not be remembered. What others have locked is left.
--
-- $1 how many of each at the most
WITH leases AS (
	DELETE FROM holdfast_lease WHERE name IN (
		SELECT name FROM holdfast_lease
		WHERE fence < (extract(epoch FROM clock_timestamp() - interval '1 day') * 1000000)::bigint
			AND (token = '' OR expires_at < clock_timestamp())
			AND NOT EXISTS (
				SELECT FROM jsonb_each(withdrawn)
				WHERE value::bigint >= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
		ORDER BY fence LIMIT $1
		FOR UPDATE SKIP LOCKED)
)
DELETE FROM holdfast_slot WHERE (job, slot) IN (
	SELECT job, slot FROM holdfast_slot
	WHERE keep < clock_timestamp()
	ORDER BY keep LIMIT $1
	FOR UPDATE SKIP LOCKED)
