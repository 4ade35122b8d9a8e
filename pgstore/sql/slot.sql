-- Reads what is known of one slot of a job, and of who holds the job.
--
-- $1 job, $2 slot
--
-- returns one row: the slot's columns, null if it is not known; the holder's
-- token, null if there is none, with its fence and its end; the time.
SELECT s.slot, s.phase, s.token, s.fence, s.attempt, s.began, s.ended, s.code, s.note,
	l.token, CASE WHEN l.fenced THEN l.fence ELSE 0 END, l.expires_at, clock_timestamp()
FROM (SELECT) AS one
LEFT JOIN holdfast_lease AS l ON l.name = $1 AND l.token <> '' AND l.expires_at >= clock_timestamp()
LEFT JOIN holdfast_slot AS s ON s.job = $1 AND s.slot = $2 AND s.keep >= clock_timestamp()
