-- Reads the last runs of a job, those begun last first.
--
-- $1 job, $2 how many at the most
--
-- returns rows as slot.sql does.
SELECT s.slot, s.phase, s.token, s.fence, s.attempt, s.began, s.ended, s.code, s.note,
	l.token, CASE WHEN l.fenced THEN l.fence ELSE 0 END, l.expires_at, clock_timestamp()
FROM holdfast_slot AS s
LEFT JOIN holdfast_lease AS l ON l.name = $1 AND l.token <> '' AND l.expires_at >= clock_timestamp()
WHERE s.job = $1 AND s.keep >= clock_timestamp()
ORDER BY s.began DESC, s.fence DESC
LIMIT $2
