package pgstore

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/pgtest"
)

func TestEachErrorOfTheServerHasItsKind(t *testing.T) {
	s := new(Store)
	for code, want := range map[string]error{
		"28P01": driver.ErrRefused, "28000": driver.ErrRefused, "42501": driver.ErrRefused, "25006": driver.ErrRefused,
		"53100": driver.ErrRefused, "53300": driver.ErrUnreachable, "57P03": driver.ErrUnreachable,
		"57P01": driver.ErrUnreachable, "57014": driver.ErrUnreachable, "08P01": driver.ErrUnreachable,
		"XX000": driver.ErrUnreachable, "58030": driver.ErrUnreachable, "55P03": driver.ErrUnreachable,
		"3D000": driver.ErrMisconfigured, "42P01": driver.ErrMisconfigured, "42601": driver.ErrMisconfigured,
		"22P05": driver.ErrMisconfigured, "26000": driver.ErrMisconfigured, "": driver.ErrUnreachable,
	} {
		err := s.failure(t.Context(), &pgconn.PgError{Code: code, Message: "said"})
		if !errors.Is(err, want) || driver.Unknown(err) != errors.Is(want, driver.ErrUnreachable) {
			t.Errorf("%s: %v, unknown %v, want %v", code, err, driver.Unknown(err), want)
		}
	}
}

func TestWhatAPoolerSaysIsUnderstood(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	pooler := pgtest.StartPooler(t, server)
	_, err := mustOpen(t, pooler.URL(pgtest.User)+"&search_path=x").Inspect(t.Context(), "job")
	if !errors.Is(err, driver.ErrMisconfigured) {
		t.Errorf("a parameter that it refuses: %v, want ErrMisconfigured", err)
	}
	_, err = mustOpen(t, pooler.URL("nowhere")).Inspect(t.Context(), "job")
	if !errors.Is(err, driver.ErrMisconfigured) {
		t.Errorf("a database that is not there: %v, want ErrMisconfigured", err)
	}
	s := mustOpen(t, pooler.URL(pgtest.User))
	if err := s.ApplySchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	eventually(t, "the pooler has noticed, and says so", func() bool {
		_, err = s.Inspect(t.Context(), "job")
		return err != nil
	})
	if !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("a server that is down: %v, want ErrUnreachable", err)
	}
	server.Restart()
	answered(t, func() (driver.State, error) { return s.Inspect(t.Context(), "job") })
	if err := pooler.Restart(); err != nil {
		t.Fatal(err)
	}
	answered(t, func() (driver.State, error) { return s.Inspect(t.Context(), "job") })
}
