-- Makes a slot running by the next attempt, if the token holds the job, and the
-- slot is as it was read.
--
-- $1 job, $2 slot, $3 token, $4 fence, $5 the attempt, $6 for how long it is
-- remembered, in µs, $7 the last moment for it, or null; what was read before:
-- $8 phase, 0 if it was not known, $9 token, $10 attempt
--
-- returns when it was begun, or no row.
WITH runner AS ( -- stays the holder until this commits: a grant waits for it
	SELECT FROM holdfast_lease
	WHERE name = $1 AND token = $3 AND CASE WHEN fenced THEN fence ELSE 0 END = $4
		AND expires_at >= clock_timestamp()
	FOR KEY SHARE
)
INSERT INTO holdfast_slot AS s (job, slot, phase, token, fence, attempt, began, ended, code, note, keep)
SELECT $1, $2, 1, $3, $4, $5, clock_timestamp(), null, 0, '', clock_timestamp() + $6::bigint * interval '1 microsecond'
FROM runner
WHERE $7::timestamptz IS NULL OR clock_timestamp() <= $7
ON CONFLICT (job, slot) DO UPDATE
SET phase = excluded.phase, token = excluded.token, fence = excluded.fence, attempt = excluded.attempt,
	began = excluded.began, ended = null, code = 0, note = '', keep = excluded.keep
WHERE CASE $8::smallint
	WHEN 0 THEN s.keep < clock_timestamp()
	ELSE s.phase = $8 AND s.token = $9 AND s.attempt = $10 END
RETURNING began
