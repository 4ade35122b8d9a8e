package main

import (
	"os"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/internal/pgtest"
	"github.com/holdfastlock/holdfast/torture/check"
	"github.com/holdfastlock/holdfast/torture/nemesis"
	"github.com/holdfastlock/holdfast/torture/worker"
)

// needsPostgres skips a test because of what is not installed, unless it must be.
func needsPostgres(t *testing.T) (bin string) {
	t.Helper()
	bin, err := pgtest.FindBinaries()
	if err == nil {
		_, err = pgtest.FindPooler()
	}
	switch {
	case err != nil && os.Getenv("CI") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return bin
}

func TestHoldfastSurvivesEveryKindOfFaultOfPostgres(t *testing.T) {
	needsPostgres(t)
	o := testOptions(t)
	o.store, o.kinds = "postgres", nemesis.OfPostgres
	o.length, o.seed = 12*time.Second, 35 // with a failover, a restart, and one of the pooler
	found := find(t, o)
	if found.Operations < 300 || len(found.Faults) < 10 {
		t.Errorf("%d operations under %d kinds of faults", found.Operations, len(found.Faults))
	}
	for _, resource := range []string{worker.ByGuard, worker.ByFence, worker.ByNothing, worker.Claims} {
		if updates := found.Stored[path.Dir(resource)]; updates == nil || updates.Writes == 0 {
			t.Errorf("%s: %+v", resource, updates)
		}
	}
}

func TestTheTablesShowLostUpdatesAndJobsDoneTwiceOrNotAtAll(t *testing.T) {
	server, err := pgtest.Launch(needsPostgres(t), pgtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Remove()
	o := options{store: "postgres", length: time.Second, names: worker.Names{Registers: []string{"x"}}, ttl: time.Second}
	r := &run{options: o}
	// The last of them has read a version 3 that a failover lost.
	const done = `
		INSERT INTO torture_write VALUES
			('sql/guard/x', 1, 0, 41, 'w1.1', 1, 1, 10, '1', '1'), ('sql/guard/x', 2, 1, 42, 'w2.1', 1, 1, 20, '1', '1'),
			('sql/plain/x', 1, 0, 41, 'w1.1', 2, 2, 30, '1', '1'), ('sql/plain/x', 2, 0, 42, 'w2.1', 2, 2, 40, '1', '1'),
			('sql/fence/x', 1, 0, 41, 'w1.1', 6, 6, 30, '1', '1'), ('sql/fence/x', 2, 3, 42, 'w2.1', 7, 7, 40, '1', '2');
		UPDATE torture_job SET done = true WHERE job <= 2;
		INSERT INTO torture_effect VALUES (1, 'w1.1', 3, 50), (2, 'w2.1', 3, 60);`
	if err := server.Exec(pgtest.User, o.resources()+done); err != nil {
		t.Fatal(err)
	}
	judge := func() check.Report {
		t.Helper()
		r.events = nil
		if err := r.readTables(t.Context(), server); err != nil {
			t.Fatal(err)
		}
		return check.Check(r.events, o.rules())
	}
	found := judge()
	if len(found.Violations) > 0 || found.Stored["sql/plain"].Lost != 1 || found.Stored["sql/guard"].Writes != 2 || found.Stored["sql/claim"].Writes != 2 {
		t.Errorf("found %+v, %+v, want what is right", found.Violations, found.Stored)
	}
	const wrong = `
		INSERT INTO torture_write VALUES ('sql/guard/x', 3, 0, 43, 'w1.1', 4, 4, 70, '1', '1'),
			('sql/fence/x', 3, 2, 43, 'w1.1', 8, 8, 80, '1', '2');
		INSERT INTO torture_effect VALUES (2, 'w1.1', 5, 80);
		DELETE FROM torture_effect WHERE job = 3;`
	if err := server.Exec(pgtest.User, wrong); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range judge().Violations {
		names = append(names, v.Kind+" "+v.Name)
	}
	slices.Sort(names)
	want := []string{check.LeftBehind + " sql/claim/3", check.LostUpdate + " sql/claim/2", check.LostUpdate + " sql/fence/x", check.LostUpdate + " sql/guard/x", check.LostUpdate + " sql/guard/x"}
	if !slices.Equal(names, want) {
		t.Errorf("found %q, want %q", names, want)
	}
}
