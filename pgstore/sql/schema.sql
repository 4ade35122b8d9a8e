-- The tables of holdfast's locks. It may be run again, and changes nothing then.
-- A user of the locks needs SELECT, INSERT, UPDATE and DELETE on both.

-- One row for each name, which stays after a release to keep its fence, and is
-- removed when the name was not granted for a day.
CREATE TABLE IF NOT EXISTS holdfast_lease (
	name       text COLLATE "C" PRIMARY KEY,
	token      text        NOT NULL, -- empty: free
	fence      bigint      NOT NULL, -- the last one granted or reserved
	fenced     boolean     NOT NULL, -- false: the holder asked for none
	since      timestamptz NOT NULL, -- of the last grant
	expires_at timestamptz NOT NULL, -- held up to and including this moment
	purpose    text        NOT NULL,
	withdrawn  jsonb       NOT NULL DEFAULT '{}' -- tokens that are refused, until when in µs since 1970
) WITH (fillfactor = 50); -- room for renewals, which then touch no index

-- Makes the fence part of a key: a grant, which changes it, waits for those who
-- have the row FOR KEY SHARE, and a renewal or release does not.
CREATE UNIQUE INDEX IF NOT EXISTS holdfast_lease_by_name_fence ON holdfast_lease (name, fence);

-- Fences are times: the oldest first.
CREATE INDEX IF NOT EXISTS holdfast_lease_by_fence ON holdfast_lease (fence);

-- One row for each slot of a job that was begun: the key makes it run once.
CREATE TABLE IF NOT EXISTS holdfast_slot (
	job     text COLLATE "C" NOT NULL,
	slot    text COLLATE "C" NOT NULL,
	phase   smallint    NOT NULL, -- 1 running, 2 done, 3 lost
	token   text        NOT NULL, -- of the runner's lease on the job
	fence   bigint      NOT NULL,
	attempt integer     NOT NULL, -- from 1
	began   timestamptz NOT NULL,
	ended   timestamptz,
	code    integer     NOT NULL, -- exit code
	note    text        NOT NULL,
	keep    timestamptz NOT NULL, -- remembered until then
	PRIMARY KEY (job, slot)
);
CREATE INDEX IF NOT EXISTS holdfast_slot_by_began ON holdfast_slot (job, began);
CREATE INDEX IF NOT EXISTS holdfast_slot_by_keep ON holdfast_slot (keep);
