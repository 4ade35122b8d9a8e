-- Reads what is known of a name.
--
-- $1 name
--
-- returns its row, or none.
SELECT name, token, fence, fenced, since, expires_at, purpose, clock_timestamp() AS now
FROM holdfast_lease
WHERE name = $1
