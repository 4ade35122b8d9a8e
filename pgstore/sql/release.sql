-- Frees the name if the token holds it. The row stays, with its fence.
--
-- $1 name, $2 token
--
-- returns 1 mine, 2 gone, 3 taken. Those who listen are told when it commits.
WITH freed AS (
	UPDATE holdfast_lease
	SET token = '', purpose = ''
	WHERE name = $1 AND token = $2 AND token <> '' AND expires_at >= clock_timestamp()
	RETURNING pg_notify('holdfast', name)
)
SELECT CASE
	WHEN EXISTS (SELECT FROM freed) THEN 1
	WHEN EXISTS (
		SELECT FROM holdfast_lease
		WHERE name = $1 AND token NOT IN ('', $2) AND expires_at >= clock_timestamp()
	) THEN 3
	ELSE 2 END
