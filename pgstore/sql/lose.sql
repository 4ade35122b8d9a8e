-- Makes a running slot lost, if the token holds the job, and the slot is as it
-- was read.
--
-- $1 job, $2 slot, $3 token, $4 fence, $5 for how long it is remembered, in µs;
-- what was read before: $6 token, $7 attempt
--
-- returns when it was found lost, or no row.
WITH runner AS ( -- stays the holder until this commits: a grant waits for it
	SELECT FROM holdfast_lease
	WHERE name = $1 AND token = $3 AND CASE WHEN fenced THEN fence ELSE 0 END = $4
		AND expires_at >= clock_timestamp()
	FOR KEY SHARE
)
UPDATE holdfast_slot
SET phase = 3, ended = clock_timestamp(), keep = clock_timestamp() + $5::bigint * interval '1 microsecond'
FROM runner
WHERE job = $1 AND slot = $2 AND phase = 1 AND token = $6 AND attempt = $7
RETURNING ended
