package pgstore

import _ "embed" // each statement is a file

var (
	//go:embed sql/schema.sql
	schemaSQL string
	//go:embed sql/acquire.sql
	acquireSQL string
	//go:embed sql/extend.sql
	extendSQL string
	//go:embed sql/release.sql
	releaseSQL string
	//go:embed sql/withdraw.sql
	withdrawSQL string
	//go:embed sql/inspect.sql
	inspectSQL string
	//go:embed sql/list.sql
	listSQL string
	//go:embed sql/sweep.sql
	sweepSQL string
	//go:embed sql/slot.sql
	slotSQL string
	//go:embed sql/runs.sql
	runsSQL string
	//go:embed sql/begin.sql
	beginSQL string
	//go:embed sql/lose.sql
	loseSQL string
	//go:embed sql/finish.sql
	finishSQL string
)
