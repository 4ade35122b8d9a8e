-- Reads the names that are held.
--
-- $1 pattern, as LIKE has it
--
-- returns their rows.
SELECT name, token, fence, fenced, since, expires_at, purpose, clock_timestamp() AS now
FROM holdfast_lease
WHERE token <> '' AND expires_at >= clock_timestamp() AND name LIKE $1
