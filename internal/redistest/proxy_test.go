package redistest

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// through returns both ends of a connection through a new proxy.
func through(t *testing.T) (proxy *Proxy, client, server net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	proxy = NewProxy(t, listener.Addr().String())
	client = dial(t, proxy.Addr())
	if server, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return proxy, client, server
}

func TestWithRequestsDroppedTheServerIsStillHeard(t *testing.T) {
	proxy, client, server := through(t)
	proxy.DropRequests()
	send(t, client, 'a')
	silent(t, server)
	send(t, server, 'b')
	receive(t, client, 'b')
	proxy.Heal()
	ended(t, client)
	ended(t, server)
}

func TestWhatPassesIsDelayed(t *testing.T) {
	const delay = 100 * time.Millisecond
	proxy, client, server := through(t)
	proxy.Delay(delay)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		began := time.Now()
		send(t, way[0], 'a')
		receive(t, way[1], 'a')
		if took := time.Since(began); took < delay {
			t.Errorf("arrived after %v, before %v", took, delay)
		}
	}
	proxy.Heal()
	send(t, client, 'b')
	receive(t, server, 'b')
}

func TestAConnectionIsCutRightBehindTheChosenByte(t *testing.T) {
	proxy, client, server := through(t)
	proxy.CutAfter(3)
	send(t, server, 'a')
	receive(t, client, 'a')
	if _, err := client.Write([]byte("bcd")); err != nil {
		t.Fatal(err)
	}
	receive(t, server, 'b')
	receive(t, server, 'c')
	server.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := server.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("received %d bytes more, %v, want the end", n, err)
	}
	ended(t, client)
}

func TestAProxyCanBePointedToAnotherServer(t *testing.T) {
	proxy, client, server := through(t)
	other := newEcho(t)
	proxy.Retarget(other.listener.Addr().String())
	ended(t, client)
	ended(t, server)
	client = dial(t, proxy.Addr())
	send(t, client, 'a')
	receive(t, client, 'a')
}
