package sqlitestore

import (
	"database/sql"
	"math/rand/v2"
	"time"
)

const (
	sweepOdds  = 64             // one release in so many
	sweepLimit = 256            // names removed at once, several times what comes in between
	sweepAge   = 24 * time.Hour // a name not granted for so long loses its row
)

func sometimesSweep(tx *sql.Tx, now moment) error {
	if rand.N(sweepOdds) != 0 {
		return nil
	}
	return sweep(tx, now)
}

// sweep removes rows of names that nobody has used for long. The next fence of
// such a name is still larger: it is at least the wall clock, which is past the
// fence that is removed.
func sweep(tx *sql.Tx, now moment) error {
	_, err := tx.Exec(`DELETE FROM lease WHERE name IN (
		SELECT name FROM lease
		WHERE fence < ? AND (token = '' OR iif(boot = ?, up < ?, wall < ?))
		ORDER BY fence LIMIT ?)`,
		now.wall-sweepAge.Microseconds(), now.boot, now.up, now.wall, sweepLimit)
	return err
}
