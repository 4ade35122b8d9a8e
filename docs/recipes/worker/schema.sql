CREATE TABLE job (
	id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name     text NOT NULL,
	due      timestamptz NOT NULL DEFAULT now(),
	failures int NOT NULL DEFAULT 0,
	error    text,
	done     timestamptz
);

-- What is to be done, in the order in which it is claimed.
CREATE INDEX job_due ON job (due, id) WHERE done IS NULL;

CREATE TABLE greeting (
	id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	job  bigint NOT NULL,
	text text NOT NULL
);

