package redistest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a network that can be broken: it passes bytes between its clients
// and one server, until told otherwise.
type Proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	changed  sync.Cond // of mu: hold, or a link's closed
	target   string
	links    map[*link]struct{}
	closed   bool
	hold     bool          // nothing passes
	delay    time.Duration // of everything that passes
	mute     bool          // requests are read and thrown away
	swallow  bool          // replies are read and thrown away
	swallowT []byte        // when not nil: a request with this text sets swallow
	cut      int           // when positive: bytes until a connection is closed
}

// link is one client's connection and ours to the server on its behalf.
type link struct {
	client, server net.Conn
	closed         bool
	lossy          bool // bytes are missing: it must not be used after Heal
	doomed         bool // to be closed when what was just passed is written
}

// NewProxy is OpenProxy for a test, which closes it when it ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := OpenProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// OpenProxy listens on the loopback interface and forwards to target,
// host:port. The caller closes it.
func OpenProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: listener, links: make(map[*link]struct{})}
	p.changed.L = &p.mu
	p.running.Add(1)
	go p.accept()
	return p, nil
}

// Addr returns host:port for the clients.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Drop makes a black hole: nothing passes in either direction, nothing is
// closed, new connections are taken and lead nowhere. What was sent meanwhile
// is in flight, and arrives late after Heal, even from a client that has closed
// its end.
func (p *Proxy) Drop() { p.set(func() { p.hold = true }) }

// Delay makes everything arrive later by d.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// DropRequests throws requests away and lets the replies to earlier ones, and
// what the server sends by itself, pass.
func (p *Proxy) DropRequests() { p.set(func() { p.mute = true }) }

// DropReplies lets requests reach the server and throws its replies away.
func (p *Proxy) DropReplies() { p.set(func() { p.swallow = true }) }

// DropRepliesTo lets everything pass until a request that contains the text
// has come; the server gets that one too, and from its reply on replies are
// thrown away.
func (p *Proxy) DropRepliesTo(text string) { p.set(func() { p.swallowT = []byte(text) }) }

// CutAfter closes the connection on which the nth byte from now passes, in
// either direction, right behind it.
func (p *Proxy) CutAfter(n int) { p.set(func() { p.cut = n }) }

// Retarget forwards to another server from now on. Connections to the old one
// are closed.
func (p *Proxy) Retarget(target string) {
	p.set(func() {
		p.target = target
		p.closeLinks()
	})
}

// Heal lets everything pass again. Connections that lost bytes are closed.
func (p *Proxy) Heal() {
	p.set(func() {
		p.hold, p.delay, p.mute, p.swallow, p.swallowT, p.cut = false, 0, false, false, nil, 0
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
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil {
			client.Close()
			continue
		}
		p.join(&link{client: client, server: server}, target)
	}
}

// join serves a link to a target, unless that has changed meanwhile.
func (p *Proxy) join(l *link, target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.target != target {
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
func (p *Proxy) pump(l *link, to, from net.Conn, pass func(*link, []byte) []byte) {
	buffer := make([]byte, 1<<14)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.sleep()
			if !p.forward(l, to, pass(l, buffer[:n])) {
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

func (p *Proxy) sleep() {
	p.mu.Lock()
	delay := p.delay
	p.mu.Unlock()
	time.Sleep(delay)
}

// forward says whether the other end still takes what is written.
func (p *Proxy) forward(l *link, to net.Conn, bytes []byte) bool {
	if len(bytes) == 0 {
		return true
	}
	_, err := to.Write(bytes)
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.doomed {
		l.close()
	}
	return err == nil
}

// passRequest waits while requests are held and returns what to forward.
func (p *Proxy) passRequest(l *link, request []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wait(l)
	if p.swallowT != nil && bytes.Contains(request, p.swallowT) {
		p.swallow, p.swallowT = true, nil
	}
	if p.mute {
		l.lossy = true
		return nil
	}
	return p.count(l, request)
}

func (p *Proxy) passReply(l *link, reply []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wait(l)
	if p.swallow {
		l.lossy = true
		return nil
	}
	return p.count(l, reply)
}

// count returns as much as may pass until the connection is to be closed.
func (p *Proxy) count(l *link, bytes []byte) []byte {
	switch {
	case l.closed:
		return nil
	case p.cut == 0:
		return bytes
	case len(bytes) < p.cut:
		p.cut -= len(bytes)
		return bytes
	}
	bytes, p.cut, l.doomed = bytes[:p.cut], 0, true
	return bytes
}

func (p *Proxy) wait(l *link) {
	for p.hold && !l.closed {
		p.changed.Wait()
	}
}
