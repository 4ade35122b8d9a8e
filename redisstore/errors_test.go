package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
)

func TestEachErrorOfTheServerHasItsKind(t *testing.T) {
	for said, kind := range map[string]error{
		"LOADING Redis is loading the dataset in memory":                                          driver.ErrUnreachable,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":        driver.ErrUnreachable,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":  driver.ErrUnreachable,
		"CLUSTERDOWN The cluster is down":                                                         driver.ErrUnreachable,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                 driver.ErrUnreachable,
		"ASK 1234 127.0.0.1:7001":                                                                 driver.ErrUnreachable,
		"ERR No such master with that name":                                                       driver.ErrMisconfigured,
		"ERR max number of clients reached":                                                       driver.ErrUnreachable,
		"READONLY You can't write against a read only replica.":                                   driver.ErrRefused,
		"READONLY You can't write against a read only replica. script: 12ab, on @user_script:31.": driver.ErrRefused,
		"ERR Error running script (call to f_12ab): @user_script:31: @user_script: 31: -READONLY You can't write against a read only replica.":                     driver.ErrRefused,
		"NOREPLICAS Not enough good replicas to write. script: 12ab, on @user_script:31.":                                                                          driver.ErrRefused,
		"ERR Error running script (call to f_12ab): @user_script:31: @user_script: 31: -NOREPLICAS Not enough good replicas to write.":                             driver.ErrRefused,
		"OOM command not allowed when used memory > 'maxmemory'. script: 12ab, on @user_script:31.":                                                                driver.ErrRefused,
		"ERR Error running script (call to f_12ab): @user_script:31: @user_script: 31: -OOM command not allowed when used memory > 'maxmemory'.":                   driver.ErrRefused,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.":                                                         driver.ErrRefused,
		"ERR Error running script (call to f_12ab): @user_script:31: @user_script: 31: -MISCONF Errors writing to the AOF file: No space left on device":           driver.ErrRefused,
		"NOPERM User app has no permissions to access the 'lock:WRONGTYPE' key":                                                                                    driver.ErrRefused,
		"ERR ACL failure in script: User app has no permissions to run the 'pexpire' command script: 12ab, on @user_script:31.":                                    driver.ErrRefused,
		"ERR Error running script (call to f_12ab): @user_script:31: @user_script: 31: -NOPERM The user executing the script can't run this command or subcommand": driver.ErrRefused,
		"NOAUTH Authentication required.":                                             driver.ErrRefused,
		"WRONGPASS invalid username-password pair or user is disabled.":               driver.ErrRefused,
		"DENIED Redis is running in protected mode because protected mode is enabled": driver.ErrRefused,
		"ERR unknown command 'EVALSHA', with args beginning with: ":                   driver.ErrRefused,
		"ERR something new": driver.ErrRefused,
		"":                  driver.ErrRefused,
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 12ab, on @user_script:13.":                                              driver.ErrMisconfigured,
		"ERR Error running script (call to f_12ab): @user_script:13: @user_script: 13: -WRONGTYPE Operation against a key holding the wrong kind of value": driver.ErrMisconfigured,
		"CROSSSLOT Keys in request don't hash to the same slot":                                                                                            driver.ErrMisconfigured,
		"MOVED 1234 127.0.0.1:7001":                                                        driver.ErrMisconfigured,
		"ERR DB index is out of range":                                                     driver.ErrMisconfigured,
		"ERR This instance has cluster support disabled":                                   driver.ErrMisconfigured,
		"ERR SELECT is not allowed in cluster mode":                                        driver.ErrMisconfigured,
		"ERR AUTH <password> called without any password configured for the default user.": driver.ErrRefused,
	} {
		f := faultOf(said)
		if !errors.Is(f.kind, kind) {
			t.Errorf("%q is %v, want %v", said, f.kind, kind)
		}
		if f.hint == "" && said != "" && !strings.Contains(said, "something new") {
			t.Errorf("%q has no hint", said)
		}
	}
}

// oneOfMany is a client of a cluster.
type oneOfMany struct{ Conn }

func (oneOfMany) Cluster() bool { return true }

func TestAServerThatHasJustChangedIsAskedAgain(t *testing.T) {
	const readOnly, elsewhere = "READONLY You can't write against a read only replica.", "MOVED 1234 127.0.0.1:7001"
	single := newConnection(Options{})
	watched := newConnection(Options{Client: rueidis.ClientOption{Sentinel: rueidis.SentinelOption{MasterSet: "main"}}})
	cluster := newConnection(Options{Conn: oneOfMany{}})
	cluster.conn = cluster.given
	for _, c := range []struct {
		connection *connection
		text       string
		kind       error
	}{
		{single, readOnly, driver.ErrRefused},
		{single, elsewhere, driver.ErrMisconfigured},
		{watched, readOnly, driver.ErrUnreachable},
		{watched, elsewhere, driver.ErrMisconfigured},
		{cluster, elsewhere, driver.ErrUnreachable},
	} {
		wantKind(t, c.connection.refusal(c.text), c.kind)
	}
}

func TestPasswordsAreNotRepeated(t *testing.T) {
	c := newConnection(Options{Client: rueidis.ClientOption{Password: "s3cret", Sentinel: rueidis.SentinelOption{Password: "hidden"}}})
	text := c.refusal("ERR unknown command 'AUTH', with args beginning with: 's3cret' 'hidden'").Error()
	if strings.Contains(text, "s3cret") || strings.Contains(text, "hidden") {
		t.Errorf("the error has a password in it: %s", text)
	}
}

func TestTheClientsTimeLimitsAreNotTheCallers(t *testing.T) {
	c := newConnection(Options{})
	for _, inner := range []error{
		context.DeadlineExceeded,
		fmt.Errorf("dial: %w", context.Canceled),
		&net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded},
	} {
		err := c.failure(context.Background(), inner)
		wantKind(t, err, driver.ErrUnreachable)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("%v looks as if the caller's context had ended", err)
		}
		var network *net.OpError
		if wasDial := errors.As(inner, &network); driver.Unknown(err) == wasDial {
			t.Errorf("%v: unknown outcome is %v", err, !wasDial)
		}
	}
}
