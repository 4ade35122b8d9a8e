package pgtest

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestAPromotedStandbyHasTheDataAndThePoolerFollowsIt(t *testing.T) {
	server := Start(t, Options{})
	database := server.Database()
	server.Exec(database, "CREATE TABLE t (n int); INSERT INTO t VALUES (7)")
	pooler := StartPooler(t, server)
	standby, err := LaunchStandby(server.Process, server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	copied := &Server{Process: standby, t: t}
	t.Cleanup(standby.Remove)
	if err := standby.Exec(database, "INSERT INTO t VALUES (8)"); err == nil {
		t.Error("a standby takes writes")
	}
	server.Exec(database, "UPDATE t SET n = 9")
	for limit := time.Now().Add(10 * time.Second); copied.Value(database, "SELECT n::text FROM t") != "9"; time.Sleep(pollEvery) {
		if time.Now().After(limit) {
			t.Fatal("the standby does not follow")
		}
	}
	if err := standby.Promote(); err != nil {
		t.Fatal(err)
	}
	copied.Exec(database, "UPDATE t SET n = 10")
	if err := pooler.Follow(standby); err != nil {
		t.Fatal(err)
	}
	var n int
	conn, err := pgx.Connect(t.Context(), pooler.URL(database)+"&default_query_exec_mode=exec")
	if err == nil {
		err = conn.QueryRow(t.Context(), "SELECT n FROM t").Scan(&n)
		conn.Close(t.Context())
	}
	if err != nil || n != 10 {
		t.Errorf("got %d, %v by the pooler, want 10", n, err)
	}
	if got := server.Value(database, "SELECT n::text FROM t"); got != "9" {
		t.Errorf("the old primary has %s, want 9", got)
	}
}
