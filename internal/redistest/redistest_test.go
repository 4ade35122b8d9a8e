package redistest

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDataIsKeptOverARestartOnlyIfAskedFor(t *testing.T) {
	server := Start(t, Options{AppendOnly: true, Password: "pw", MaxMemory: "50mb"})
	if err := server.Do("SET", "k", "v").Error(); err != nil {
		t.Fatal(err)
	}
	server.Restart(true)
	if got, err := server.Do("GET", "k").ToString(); got != "v" {
		t.Fatalf("GET is %q, %v, want v", got, err)
	}
	server.Kill()
	server.Restart(false)
	if n, err := server.Do("DBSIZE").AsInt64(); n != 0 || err != nil {
		t.Fatalf("%d keys, %v, want none", n, err)
	}
}

func TestCommandsAreCounted(t *testing.T) {
	server := Start(t, Options{})
	before := server.CommandCounts()
	server.Do("SET", "k", "v")
	server.Do("EVAL", "return redis.call('GET', KEYS[1])", "1", "k")
	after := server.CommandCounts()
	for _, name := range []string{"set", "eval", "get"} {
		if n := after[name] - before[name]; n != 1 {
			t.Errorf("%s was counted %d times, want 1", name, n)
		}
	}
}

func TestAPausedServerAnswersAfterwards(t *testing.T) {
	server := Start(t, Options{})
	server.Pause()
	answered := make(chan error, 1)
	go func() { answered <- server.Do("PING").Error() }()
	server.Resume()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// echo answers each byte with itself and records it.
type echo struct {
	listener net.Listener
	running  sync.WaitGroup
	got      chan byte
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{listener: listener, got: make(chan byte, 100)}
	e.running.Go(e.accept)
	t.Cleanup(func() {
		listener.Close()
		e.running.Wait()
	})
	return e
}

func (e *echo) accept() {
	for {
		conn, err := e.listener.Accept()
		if err != nil {
			return
		}
		e.running.Go(func() {
			defer conn.Close()
			var b [1]byte
			for {
				if _, err := io.ReadFull(conn, b[:]); err != nil {
					return
				}
				e.got <- b[0]
				conn.Write(b[:])
			}
		})
	}
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func send(t *testing.T, conn net.Conn, b byte) {
	t.Helper()
	if _, err := conn.Write([]byte{b}); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, conn net.Conn, want byte) {
	t.Helper()
	var b [1]byte
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(conn, b[:]); err != nil || b[0] != want {
		t.Fatalf("received %q, %v, want %q", b, err, want)
	}
}

// silent checks that nothing has come so far.
func silent(t *testing.T, conn net.Conn) {
	t.Helper()
	var b [1]byte
	conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := conn.Read(b[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("received %q, %v, want nothing", b[:n], err)
	}
}

func ended(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection is still open")
	}
}

func TestWhatABlackHoleHeldArrivesLate(t *testing.T) {
	server := newEcho(t)
	proxy := NewProxy(t, server.listener.Addr().String())
	conn, leaving := dial(t, proxy.Addr()), dial(t, proxy.Addr())
	send(t, conn, 'a')
	receive(t, conn, 'a')
	<-server.got

	proxy.Drop()
	send(t, conn, 'b')
	silent(t, conn)
	select {
	case b := <-server.got:
		t.Fatalf("the server got %q", b)
	default:
	}
	proxy.Heal()
	receive(t, conn, 'b')
	<-server.got

	proxy.Drop()
	send(t, leaving, 'c')
	leaving.Close()
	proxy.Heal()
	if b := <-server.got; b != 'c' {
		t.Errorf("the server got %q, want c", b)
	}
}

func TestDroppedRepliesAreLostAndTheirConnectionsClosed(t *testing.T) {
	server := newEcho(t)
	proxy := NewProxy(t, server.listener.Addr().String())
	conn, idle := dial(t, proxy.Addr()), dial(t, proxy.Addr())
	send(t, idle, 'i')
	receive(t, idle, 'i')
	<-server.got

	proxy.DropReplies()
	send(t, conn, 'a')
	<-server.got
	silent(t, conn)
	proxy.Heal()
	ended(t, conn)
	send(t, idle, 'j')
	receive(t, idle, 'j')
}

func TestRepliesAreDroppedFromTheChosenRequestOn(t *testing.T) {
	server := newEcho(t)
	proxy := NewProxy(t, server.listener.Addr().String())
	conn := dial(t, proxy.Addr())
	proxy.DropRepliesTo("x")
	send(t, conn, 'a')
	receive(t, conn, 'a')
	send(t, conn, 'x')
	silent(t, conn)
	if a, x := <-server.got, <-server.got; a != 'a' || x != 'x' {
		t.Errorf("the server got %q and %q", a, x)
	}
}

func TestCutClosesAndServesNewOnes(t *testing.T) {
	server := newEcho(t)
	proxy := NewProxy(t, server.listener.Addr().String())
	conn := dial(t, proxy.Addr())
	send(t, conn, 'a')
	receive(t, conn, 'a')
	proxy.Cut()
	ended(t, conn)
	conn = dial(t, proxy.Addr())
	send(t, conn, 'b')
	receive(t, conn, 'b')
}

func TestCloseEndsEverythingAlsoInABlackHole(t *testing.T) {
	server := newEcho(t)
	proxy := NewProxy(t, server.listener.Addr().String())
	conn := dial(t, proxy.Addr())
	send(t, conn, 'a')
	receive(t, conn, 'a')
	proxy.Drop()
	send(t, conn, 'b')
	proxy.Close()
	proxy.Close()
	ended(t, conn)
}
