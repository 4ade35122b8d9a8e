-- Makes a slot done, if it is the run of the token and fence, and the token
-- still holds the job.
--
-- $1 job, $2 slot, $3 token, $4 fence, $5 exit code, $6 note, $7 for how long it
-- is remembered, in µs
--
-- returns when it was done, or no row.
WITH runner AS ( -- stays the holder until this commits: a grant waits for it
	SELECT FROM holdfast_lease
	WHERE name = $1 AND token = $3 AND CASE WHEN fenced THEN fence ELSE 0 END = $4
		AND expires_at >= clock_timestamp()
	FOR KEY SHARE
)
UPDATE holdfast_slot
SET phase = 2, ended = clock_timestamp(), code = $5, note = $6,
	keep = clock_timestamp() + $7::bigint * interval '1 microsecond'
FROM runner
WHERE job = $1 AND slot = $2 AND phase = 1 AND token = $3 AND fence = $4 AND keep >= clock_timestamp()
RETURNING ended
