package doctor

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/pgtest"
	"github.com/holdfastlock/holdfast/pgstore"
)

// settled is a server of which nothing is bad, as far as it can be alone.
var settled = pgtest.Options{Sync: true, Settings: []string{"full_page_writes=on", "synchronous_commit=on", "autovacuum=off"}}

// withTables makes a database with the tables and returns its name.
func withTables(t *testing.T, server *pgtest.Server) string {
	t.Helper()
	database := server.Database()
	server.Exec(database, pgstore.Schema())
	return database
}

func TestADatabaseThatIsFitIsFoundToBeAndIsLeftAsItWas(t *testing.T) {
	server := pgtest.Start(t, settled)
	database := withTables(t, server)
	server.Exec(database, "INSERT INTO holdfast_lease VALUES ('x', 'token', 1, true, now(), now(), '')")
	// Each transaction that writes takes a number, also one that asks for it.
	number := func() int {
		n, err := strconv.Atoi(server.Value(database, "SELECT txid_current()::text"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const settings = "SELECT string_agg(name || setting, ',' ORDER BY name) FROM pg_settings"
	before, set := number(), server.Value(database, settings)
	all := examine(t, server.URL(database))
	if after := number(); after != before+1 {
		t.Errorf("%d transactions have written", after-before-1)
	}
	if server.Value(database, settings) != set {
		t.Error("the settings are not as before")
	}
	all.wantFit(t)
	for _, check := range []string{"version", "role", "encoding", "tables", "rights", "fsync", "commit", "pooler", "connections", "clock", "round-trip"} {
		all.want(t, OK, check)
	}
}

func TestTablesThatAreNotCompleteAreAFailure(t *testing.T) {
	server := pgtest.Shared(t)
	database := server.Database()
	url := server.URL(database)
	all := examine(t, url)
	all.want(t, Failure, "tables", "holdfast_lease", "holdfast schema apply")
	for _, damage := range []string{
		"DROP INDEX holdfast_lease_by_name_fence", "DROP TABLE holdfast_slot",
		"ALTER TABLE holdfast_lease DROP COLUMN withdrawn", "ALTER TABLE holdfast_slot DROP COLUMN note",
	} {
		server.Exec(database, pgstore.Schema())
		examine(t, url).want(t, OK, "tables", "in schema public")
		server.Exec(database, damage)
		examine(t, url).want(t, Failure, "tables")
		server.Exec(database, "DROP TABLE IF EXISTS holdfast_lease, holdfast_slot")
	}
}

func TestTheColumnsAreThoseOfTheTables(t *testing.T) {
	server := pgtest.Shared(t)
	database := withTables(t, server)
	for table, names := range columns {
		sql := "SELECT string_agg(column_name, ', ' ORDER BY ordinal_position) FROM information_schema.columns WHERE table_name = '" + table + "'"
		if got := server.Value(database, sql); got != names {
			t.Errorf("%s has %s, looked for are %s", table, got, names)
		}
	}
}

func TestAUserWithoutRightsOnTheTablesIsToldTheGrant(t *testing.T) {
	server := pgtest.Shared(t)
	database := withTables(t, server)
	server.Exec(database, "DROP ROLE IF EXISTS \"lim\"; CREATE ROLE \"lim\" LOGIN; GRANT SELECT, INSERT ON holdfast_lease, holdfast_slot TO lim")
	url := strings.Replace(server.URL(database), pgtest.User+"@", "lim@", 1)
	all := examine(t, url)
	all.want(t, Failure, "rights", `GRANT UPDATE, DELETE ON holdfast_lease TO "lim"; GRANT UPDATE, DELETE ON holdfast_slot TO "lim";`)
	for _, f := range all {
		if f.Check == "rights" {
			server.Exec(database, f.Fix)
		}
	}
	examine(t, url).want(t, OK, "rights")
	server.Exec(database, "ALTER ROLE lim SET default_transaction_read_only = on")
	examine(t, url).want(t, Failure, "role", `ALTER ROLE "lim" SET`)
	server.Exec(database, "DROP OWNED BY lim; DROP ROLE lim")
}

func TestSettingsThatLoseGrantsAreJudged(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{Settings: []string{"fsync=off", "full_page_writes=off", "synchronous_commit=off", "max_connections=8", "superuser_reserved_connections=1", "idle_session_timeout=600s"}})
	database := withTables(t, server)
	var held []*pgx.Conn
	for range 5 {
		conn, err := pgx.Connect(t.Context(), server.URL(database))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	all := examine(t, server.URL(database))
	all.want(t, Failure, "fsync", "off", "ALTER SYSTEM SET fsync = on")
	all.want(t, Warning, "full-page-writes", "off")
	all.want(t, Warning, "commit", "synchronous_commit off")
	all.want(t, Warning, "connections", "of 7 used")
	all.want(t, Note, "idle-sessions", "10min")
	all.want(t, Note, "idle-transactions", "idle_in_transaction_session_timeout")
	for _, conn := range held {
		conn.Close(context.WithoutCancel(t.Context()))
		<-conn.PgConn().CleanupDone()
	}
}

func TestAStandbyIsAFailureAndWhetherThePrimaryWaitsForItIsJudged(t *testing.T) {
	primary := pgtest.Start(t, settled)
	database := withTables(t, primary)
	standby, err := pgtest.LaunchStandby(primary.Process, primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Remove)
	until(t, func() bool {
		return primary.Value(database, "SELECT count(*)::text FROM pg_stat_replication WHERE state = 'streaming'") == "1"
	})
	until(t, func() bool {
		_, err := standby.Value(database, "SELECT 'there'")
		return err == nil
	})
	examine(t, standby.URL(database)).want(t, Failure, "role", "standby", "target_session_attrs=read-write")
	examine(t, primary.URL(database)).want(t, Warning, "standbys", "1 connected", "synchronous_standby_names = '*'")
	primary.Exec(database, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	primary.Exec(database, "SELECT pg_reload_conf()")
	until(t, func() bool { return primary.Value(database, "SHOW synchronous_standby_names") == "*" })
	examine(t, primary.URL(database)).want(t, OK, "standbys", "*")
	primary.Exec(database, "ALTER DATABASE "+database+" SET synchronous_commit = local")
	examine(t, primary.URL(database)).want(t, Warning, "standbys", "local")
	standby.Kill()
	until(t, func() bool {
		return primary.Value(database, "SELECT count(*)::text FROM pg_stat_replication") == "0"
	})
	examine(t, primary.URL(database)).want(t, Failure, "standbys", "0 connected")
}

func TestThePoolersModeIsFoundByItsEffect(t *testing.T) {
	server := pgtest.Shared(t)
	database := withTables(t, server)
	pooler := pgtest.StartPooler(t, server)
	for mode, words := range map[string]string{"transaction": transactionMode, "session": sessionMode, "statement": statementMode} {
		setMode(t, pooler, mode)
		all := examine(t, pooler.URL(database))
		all.want(t, Note, "pooler", words)
		if mode == "transaction" {
			examine(t, pooler.URL(database)+"&default_query_exec_mode=cache_statement").want(t, Warning, "pooler", "default_query_exec_mode=exec")
		}
	}
}

// setMode sets the mode of the pooler, for connections made from now on.
func setMode(t *testing.T, pooler *pgtest.Pooler, mode string) {
	t.Helper()
	config, err := pgx.ParseConfig(pooler.URL("pgbouncer"))
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		conn.Close(context.WithoutCancel(t.Context()))
		<-conn.PgConn().CleanupDone()
	}()
	if _, err := conn.Exec(t.Context(), "SET pool_mode = '"+mode+"'"); err != nil {
		t.Fatal(err)
	}
}

func TestADatabaseThatCanNotBeExaminedIsAnError(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{Password: "hunter2"})
	for url, kind := range map[string]error{
		"postgres://127.0.0.1:1/db?sslmode=disable":                         driver.ErrUnreachable,
		strings.Replace(server.URL(pgtest.User), ":hunter2@", ":wrong@", 1): driver.ErrRefused,
		server.URL("nowhere"):          driver.ErrMisconfigured,
		"postgres://host/db?unknown=1": driver.ErrMisconfigured,
	} {
		var all findings
		err := Examine(t.Context(), url, Options{TTL: time.Minute, ConnectTimeout: 2 * time.Second, Found: func(f Finding) { all = append(all, f) }})
		if !errors.Is(err, kind) || strings.Contains(err.Error(), "hunter2") || len(all) > 0 {
			t.Errorf("%s: %v", url, err)
		}
	}
}
