package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfastlock/holdfast/internal/pgtest"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/pgstore"
)

// postgres are a primary, a standby that confirms every commit, and a pooler.
// Each worker has a proxy of its own, to the primary if its number is odd, and to
// the pooler if it is even.
type postgres struct {
	options          options
	primary, standby *pgtest.Process
	link             *redistest.Proxy // how the standby reaches the primary
	pooler           *pgtest.Pooler
	ways             []*redistest.Proxy // of worker 1, 2, …
}

// transactionLimit is how many TTLs a transaction may be idle: a worker that is
// stopped in one keeps its rows for as long.
const transactionLimit = 3

// start implements backend.
func (p *postgres) start() (err error) {
	o := p.options
	bin, err := pgtest.FindBinaries()
	if err != nil {
		return err
	}
	pooler, err := pgtest.FindPooler()
	if err != nil {
		return err
	}
	limit := fmt.Sprintf("idle_in_transaction_session_timeout=%dms", (transactionLimit * o.ttl).Milliseconds())
	if p.primary, err = pgtest.Launch(bin, pgtest.Options{Sync: true, Settings: []string{limit}}); err != nil {
		return err
	}
	if err = p.primary.Exec(pgtest.User, clockSchema+pgstore.Schema()+o.resources()); err != nil {
		return err
	}
	if p.link, err = redistest.OpenProxy(p.primary.Addr()); err != nil {
		return err
	}
	if p.pooler, err = pgtest.LaunchPooler(pooler, p.primary); err != nil {
		return err
	}
	for n := range o.workers {
		proxy, err := redistest.OpenProxy(p.addressFor(n + 1))
		if err != nil {
			return err
		}
		p.ways = append(p.ways, proxy)
	}
	return p.addStandby()
}

// pooled says whether worker n goes through the pooler.
func pooled(n int) bool { return n%2 == 0 }

func (p *postgres) addressFor(n int) string {
	if pooled(n) {
		return p.pooler.Addr()
	}
	return p.primary.Addr()
}

// store implements backend.
func (p *postgres) store(n int) (string, map[string]string) {
	return "postgres://" + pgtest.User + "@" + p.ways[n-1].Addr() + "/" + pgtest.User + "?sslmode=disable", nil
}

// proxies implements backend.
func (p *postgres) proxies(n int) []*redistest.Proxy { return p.ways[n-1 : n] }

// aboutLocks implements backend. On a connection that leads to the server itself the
// statement has been given a name before.
func (p *postgres) aboutLocks(n int) string {
	if pooled(n) {
		return "holdfast_lease"
	}
	return "stmtcache_"
}

// addStandby makes a standby, and has the primary wait for it from then on.
func (p *postgres) addStandby() (err error) {
	if p.standby, err = pgtest.LaunchStandby(p.primary, p.link.Addr()); err != nil {
		return err
	}
	if err := waitFor(p.primary, "*"); err != nil {
		return err
	}
	return p.inSync()
}

// waitFor has a primary answer commits when such standbys have them: "*" for any,
// "" for none.
func waitFor(server *pgtest.Process, standbys string) error {
	// ALTER SYSTEM can't share its request with another statement.
	if err := server.Exec(pgtest.User, "ALTER SYSTEM SET synchronous_standby_names = '"+standbys+"'"); err != nil {
		return err
	}
	return server.Exec(pgtest.User, "SELECT pg_reload_conf()")
}

// inSync waits until the standby confirms commits.
func (p *postgres) inSync() error {
	for deadline := time.Now().Add(syncWithin); ; time.Sleep(syncPoll) {
		state, err := p.primary.Value(pgtest.User, "SELECT coalesce(max(sync_state), 'none') FROM pg_stat_replication WHERE state = 'streaming'")
		if err == nil && state == "sync" {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("the standby does not follow: its state is %q", state), err)
		}
	}
}

// promote makes the standby the primary, while the old one goes on until
// nobody reaches it any more.
func (p *postgres) promote() error {
	old := p.primary
	defer old.Remove()
	p.primary, p.standby = p.standby, nil
	if err := waitFor(p.primary, ""); err != nil {
		return err
	}
	if err := p.primary.Promote(); err != nil {
		return err
	}
	p.link.Retarget(p.primary.Addr())
	p.link.Heal()
	if err := p.pooler.Follow(p.primary); err != nil {
		return err
	}
	for n, proxy := range p.ways {
		proxy.Retarget(p.addressFor(n + 1))
	}
	old.Kill()
	return p.addStandby()
}

// clockSchema makes a clock that can be stepped, and stands before the server's own
// in the search_path.
const clockSchema = `
CREATE SCHEMA clock;
CREATE TABLE clock.step (moved interval NOT NULL);
INSERT INTO clock.step VALUES ('0');
CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
	AS 'SELECT pg_catalog.clock_timestamp() + moved FROM clock.step';
ALTER DATABASE ` + pgtest.User + ` SET search_path = public, clock, pg_catalog;
`

func (p *postgres) stepClock(by time.Duration) error {
	return p.primary.Exec(pgtest.User, fmt.Sprintf("UPDATE clock.step SET moved = moved + interval '%d microseconds'", by.Microseconds()))
}

// versions implements backend.
func (p *postgres) versions() map[string]string {
	version, _ := p.primary.Value(pgtest.User, "SHOW server_version") // without: unknown
	return map[string]string{"postgres": version}
}

func (p *postgres) close() {
	for _, proxy := range p.ways {
		proxy.Close()
	}
	if p.pooler != nil {
		p.pooler.Remove()
	}
	for _, server := range []*pgtest.Process{p.primary, p.standby} {
		if server != nil {
			server.Remove()
		}
	}
	if p.link != nil {
		p.link.Close()
	}
}
