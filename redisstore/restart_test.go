package redisstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// abstaining returns a store that grants nothing on a server which has been up for
// less than d, and a second.
func abstaining(t *testing.T, server *redistest.Server, d time.Duration) *Store {
	t.Helper()
	return openWith(t, Options{
		Client:              rueidis.ClientOption{InitAddress: []string{server.Addr()}},
		AbstainAfterRestart: d,
	})
}

// brief is a request for no longer than a second.
func brief(name string) driver.AcquireRequest {
	req := request(name)
	req.TTL = time.Second
	return req
}

func TestAServerThatHasJustStartedGrantsNothing(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	store, plain := abstaining(t, server, time.Hour), open(t, server.Addr())
	for way, grant := range grants {
		_, err := grant(within(t), store, request("x"))
		wantKind(t, err, driver.ErrUnreachable)
		if err == nil || !strings.Contains(err.Error(), "must have been for 1h0m1s (after a restart") {
			t.Errorf("%s: %v", way, err)
		}
	}
	if n := number(t, server, "DBSIZE"); n != 0 {
		t.Errorf("%d keys were written", n)
	}
	held := request("held")
	fence := acquire(t, plain, held)
	_, err := store.RaiseFence(within(t), driver.RaiseRequest{Name: held.Name, Token: held.Token, Last: fence + 1})
	wantKind(t, err, driver.ErrUnreachable)
	extend(t, store, held) // what is held is held
	release(t, store, held, driver.Mine)
}

func TestAServerGrantsOnceItHasBeenUpLongEnough(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	store := abstaining(t, server, time.Second)
	granted := func() bool {
		result, err := store.Acquire(within(t), brief("x"))
		if err != nil {
			wantKind(t, err, driver.ErrUnreachable)
		}
		return result.Granted
	}
	eventually(t, "the server grants", granted)
	counts := sent(t, server, func() {
		for _, name := range []string{"a", "b", "c"} {
			acquire(t, store, brief(name))
		}
	})
	if counts["info"] > 1 { // which is what asks for the counts
		t.Errorf("INFO was sent %d times for three grants", counts["info"]-1)
	}
	server.Restart(false)
	if granted() {
		t.Error("granted at once after the next start")
	}
	eventually(t, "it grants again", granted)
}

// The server is started anew when it was looked at already, and grants.
func TestARestartBetweenTheLookAndTheGrantIsNoticed(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	store := abstaining(t, server, time.Second)
	eventually(t, "the server grants", func() bool {
		result, _ := store.Acquire(within(t), brief("x"))
		return result.Granted
	})
	req := brief("y")
	result, err := store.guarded(within(t), req, func() (driver.QueueResult, error) {
		before := store.connection.lossesSoFar()
		server.Restart(false)
		eventually(t, "the connection is lost", func() bool { return store.connection.lossesSoFar() > before })
		acquire(t, open(t, server.Addr()), req)
		return driver.QueueResult{AcquireResult: driver.AcquireResult{Granted: true, Fence: 1}, Previous: driver.Mine}, nil
	})
	wantKind(t, err, driver.ErrUnreachable)
	if result.Granted || result.Fence != 0 || result.Previous != driver.Mine {
		t.Errorf("the result is %+v", result)
	}
	if n := number(t, server, "EXISTS", "lock:y"); n != 0 {
		t.Error("the grant was not taken back")
	}
}

// A client of the caller's does not tell when its connections end, so that each
// grant is looked at before and after.
func TestARestartBehindAClientOfTheCallersIsNoticed(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableRetry: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	store := openWith(t, Options{Conn: Rueidis(client), AbstainAfterRestart: time.Second})
	eventually(t, "the server grants", func() bool {
		result, _ := store.Acquire(within(t), brief("x"))
		return result.Granted
	})
	server.Restart(false)
	eventually(t, "the server is reached again, and refuses", func() bool { // the client may have had several connections
		result, err := store.Acquire(within(t), brief("x"))
		if result.Granted {
			t.Fatal("it grants")
		}
		return errors.Is(err, driver.ErrUnreachable) && strings.Contains(err.Error(), "has been up for")
	})
}

func TestWhoMayNotAskForTheUptimeIsToldWhatIsMissing(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	do(t, server, "ACL", "SETUSER", "default", "-info")
	_, err := abstaining(t, server, time.Second).Acquire(within(t), brief("x"))
	wantKind(t, err, driver.ErrRefused)
	if err == nil || !strings.Contains(err.Error(), "+info") {
		t.Errorf("the error is %v", err)
	}
}
