package redistest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy is a network that can be broken: it passes bytes between its clients
// and one server, until told otherwise.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	changed  sync.Cond // of mu: hold, or a link's closed
	links    map[*link]struct{}
	closed   bool
	hold     bool   // nothing passes
	swallow  bool   // replies are read and thrown away
	swallowT []byte // when not nil: a request with this text sets swallow
}

// link is one client's connection and ours to the server on its behalf.
type link struct {
	client, server net.Conn
	closed         bool
	lossy          bool // bytes are missing: it must not be used after Heal
}

// NewProxy listens on the loopback interface and forwards to target,
// host:port. It is closed when the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listener: listener, links: make(map[*link]struct{})}
	p.changed.L = &p.mu
	p.running.Add(1)
	go p.accept()
	t.Cleanup(p.Close)
	return p
}

// Addr returns host:port for the clients.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Drop makes a black hole: nothing passes in either direction, nothing is
// closed, new connections are taken and lead nowhere. What was sent meanwhile
// is in flight, and arrives late after Heal, even from a client that has closed
// its end.
func (p *Proxy) Drop() { p.set(func() { p.hold = true }) }

// DropReplies lets requests reach the server and throws its replies away.
func (p *Proxy) DropReplies() { p.set(func() { p.swallow = true }) }

// DropRepliesTo lets everything pass until a request that contains the text
// has come; the server gets that one too, and from its reply on replies are
// thrown away.
func (p *Proxy) DropRepliesTo(text string) { p.set(func() { p.swallowT = []byte(text) }) }

// Heal lets everything pass again. Connections that lost replies are closed.
func (p *Proxy) Heal() {
	p.set(func() {
		p.hold, p.swallow, p.swallowT = false, false, nil
		for l := range p.links {
			if l.lossy {
				l.close()
			}
		}
	})
}

// Cut closes all connections. New ones are served as before.
func (p *Proxy) Cut() { p.set(p.closeLinks) }

// Close ends the proxy and its connections, and returns when its goroutines
// have ended. It may be called again.
func (p *Proxy) Close() {
	p.listener.Close()
	p.set(func() { p.closed = true; p.closeLinks() })
	p.running.Wait()
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

func (p *Proxy) closeLinks() {
	for l := range p.links {
		l.close()
	}
}

func (l *link) close() {
	l.closed = true
	l.client.Close()
	l.server.Close()
}

func (p *Proxy) accept() {
	defer p.running.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.join(&link{client: client, server: server})
	}
}

func (p *Proxy) join(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.close()
		return
	}
	p.links[l] = struct{}{}
	p.running.Add(1)
	go p.serve(l)
}

func (p *Proxy) serve(l *link) {
	defer p.running.Done()
	var directions sync.WaitGroup
	directions.Go(func() { p.pump(l, l.server, l.client, p.passRequest) })
	directions.Go(func() { p.pump(l, l.client, l.server, p.passReply) })
	directions.Wait()
	p.set(func() {
		l.close()
		delete(p.links, l)
	})
}

// pump copies until one end fails, then passes the end on, which a black hole
// holds back like anything else.
func (p *Proxy) pump(l *link, to, from net.Conn, pass func(*link, []byte) bool) {
	buffer := make([]byte, 1<<14)
	for {
		n, err := from.Read(buffer)
		if n > 0 && pass(l, buffer[:n]) {
			if _, err := to.Write(buffer[:n]); err != nil {
				io.Copy(io.Discard, from)
			}
		}
		if err != nil {
			break
		}
	}
	p.mu.Lock()
	p.wait(l)
	p.mu.Unlock()
	to.(*net.TCPConn).CloseWrite()
}

// passRequest waits while requests are held and says whether to forward.
func (p *Proxy) passRequest(l *link, request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wait(l)
	if p.swallowT != nil && bytes.Contains(request, p.swallowT) {
		p.swallow, p.swallowT = true, nil
	}
	return !l.closed
}

func (p *Proxy) passReply(l *link, _ []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wait(l)
	l.lossy = l.lossy || p.swallow
	return !l.closed && !l.lossy
}

func (p *Proxy) wait(l *link) {
	for p.hold && !l.closed {
		p.changed.Wait()
	}
}
