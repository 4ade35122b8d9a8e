package doctor

import (
	"context"
	"fmt"
	"strings"
)

// durable says what the database still knows after a crash.
func durable(ctx context.Context, r *report, db *database) {
	if db.setting(ctx, "fsync") == "off" {
		r.add(Failure, "fsync", "off", "a crash of the machine may lose or damage everything: locks that are held are granted again", "ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf()")
	} else {
		r.ok("fsync", "on")
	}
	if db.setting(ctx, "full_page_writes") == "off" {
		r.add(Warning, "full-page-writes", "off", "a crash of the machine may damage pages", "ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf()")
	}
	if commit := db.setting(ctx, "synchronous_commit"); commit == "off" {
		r.add(Warning, "commit", "synchronous_commit off", "a crash forgets the last grants, and others get these locks",
			"ALTER ROLE "+db.user()+" SET synchronous_commit = on")
	} else if commit != "" {
		r.ok("commit", "synchronous_commit "+commit)
	}
}

// standbys says what a failover may lose.
func standbys(ctx context.Context, r *report, db *database) {
	var connected, synchronous int
	if db.get(ctx, &connected, "SELECT count(*)::int FROM pg_stat_replication") != nil {
		return
	}
	_ = db.get(ctx, &synchronous, "SELECT count(*)::int FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')")
	names, commit := db.setting(ctx, "synchronous_standby_names"), db.setting(ctx, "synchronous_commit")
	found := fmt.Sprintf("%d connected, synchronous_standby_names %q", connected, names)
	switch {
	case connected == 0 && names == "":
		r.add(Note, "standbys", "none", "if the server is lost, there are no locks until it is back", "")
	case names != "" && connected == 0:
		r.add(Failure, "standbys", found, "every grant waits for a standby that is not there", "connect the standby")
	case names != "" && !strings.Contains("on remote_write remote_apply", commit):
		r.add(Warning, "standbys", found+", synchronous_commit "+commit, "commits don't wait for the standby: a failover may forget the last grants, and others get these locks",
			"ALTER ROLE "+db.user()+" SET synchronous_commit = on")
	case names != "":
		r.ok("standbys", found)
	default:
		r.add(Warning, "standbys", found, "a failover may forget the last grants, and others get these locks; then a fence may come again, too",
			"ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT pg_reload_conf()")
	}
}
