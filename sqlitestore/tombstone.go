package sqlitestore

import (
	"database/sql"
	"errors"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// checkTombstone returns driver.ErrWithdrawn if the token was tombstoned.
func checkTombstone(tx *sql.Tx, now moment, token string) error {
	var end moment
	err := tx.QueryRow(`SELECT boot, up, wall FROM tombstone WHERE token = ?`, token).Scan(&end.boot, &end.up, &end.wall)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	case end.before(now):
		return nil
	default:
		return driver.ErrWithdrawn
	}
}

// setTombstone also removes the tombstones that have ended; there are few.
func setTombstone(tx *sql.Tx, now moment, token string, d time.Duration) error {
	_, err := tx.Exec(`DELETE FROM tombstone WHERE iif(boot = ?, up < ?, wall < ?)`, now.boot, now.up, now.wall)
	if err != nil {
		return err
	}
	end := now.after(d)
	_, err = tx.Exec(`INSERT OR REPLACE INTO tombstone (token, boot, up, wall) VALUES (?, ?, ?, ?)`,
		token, end.boot, end.up, end.wall)
	return err
}
