package redisstore

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// turns are what the waiters of one name do, seen from inside.
type turns struct {
	name   string
	inside atomic.Int32
	fence  atomic.Int64
	taken  atomic.Int32
}

// process is a store with an inbox, as a process of its own would have it.
type process struct {
	store *Store
	proxy *redistest.Proxy
	inbox driver.Inbox
	mu    sync.Mutex
	hints map[string]chan struct{} // by token
}

func startProcess(t *testing.T, server *redistest.Server) *process {
	t.Helper()
	p := &process{proxy: redistest.NewProxy(t, server.Addr()), hints: make(map[string]chan struct{})}
	p.store = open(t, p.proxy.Addr())
	p.inbox = p.store.OpenInbox(driver.Listener{
		Handed:   func(h driver.HandOff) { p.hint(h.Token) },
		Restored: func() { p.hint("") },
	})
	t.Cleanup(p.inbox.Close)
	return p
}

// hint wakes the token's waiter, or all of them.
func (p *process) hint(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for other, hint := range p.hints {
		if token != "" && token != other {
			continue
		}
		select {
		case hint <- struct{}{}:
		default:
		}
	}
}

func (p *process) register(token string) (hint chan struct{}, forget func()) {
	hint = make(chan struct{}, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hints[token] = hint
	return hint, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.hints, token)
	}
}

// work takes n turns; each but the first is asked for with the release of the
// one before, unless a request of that one may still be on its way.
func (p *process) work(t *testing.T, on *turns, n int) {
	previous := ""
	for i := range n {
		req := driver.QueueRequest{
			AcquireRequest: request(on.name), Inbox: p.inbox.Address(), Keep: time.Minute, Previous: previous,
		}
		fence, sure := p.wait(t, req)
		if t.Failed() {
			return
		}
		if on.inside.Add(1) != 1 {
			t.Errorf("%s: two hold it", on.name)
		}
		if last := on.fence.Swap(fence); fence <= last {
			t.Errorf("%s: fence %d was granted after %d", on.name, fence, last)
		}
		on.taken.Add(1)
		on.inside.Add(-1)
		if previous = req.Token; !sure || i == n-1 {
			p.release(t, req)
			previous = ""
		}
	}
}

// wait asks until it is granted: when it is told, when the inbox listens again,
// and after a while. It is sure if all its requests were answered.
func (p *process) wait(t *testing.T, req driver.QueueRequest) (fence int64, sure bool) {
	hint, forget := p.register(req.Token)
	defer forget()
	sure = true
	for end := time.Now().Add(2 * patience); time.Now().Before(end); {
		result, err := p.store.Enqueue(within(t), req)
		if err == nil && result.Granted {
			return result.Fence, sure
		}
		sure = sure && err == nil
		select {
		case <-hint:
		case <-time.After(50*time.Millisecond + rand.N(100*time.Millisecond)):
		}
	}
	t.Errorf("%s: not granted in %v", req.Name, 2*patience)
	return 0, false
}

// release is repeated until it is answered.
func (p *process) release(t *testing.T, req driver.QueueRequest) {
	leave := driver.ReleaseRequest{Name: req.Name, Token: req.Token, Inbox: req.Inbox, Tombstone: patience}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := p.store.Release(within(t), leave); err == nil {
			return
		}
	}
	t.Errorf("%s: not released in %v", req.Name, patience)
}

// TestWaitersGetTheirTurnsWhateverHappensToConnectionsAndScripts: requests,
// replies and messages are lost, inboxes miss their turn, scripts are forgotten.
func TestWaitersGetTheirTurnsWhateverHappensToConnectionsAndScripts(t *testing.T) {
	const names, processes, workers, times = 2, 3, 3, 150
	server := redistest.Start(t, redistest.Options{})
	all := make([]*turns, names)
	for i := range all {
		all[i] = &turns{name: fmt.Sprintf("name %d", i)}
	}
	var running sync.WaitGroup
	crew := make([]*process, processes)
	for i := range crew {
		crew[i] = startProcess(t, server)
		for n := range names * workers {
			running.Go(func() { crew[i].work(t, all[n%names], times) })
		}
	}
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	for pause := 20 * time.Millisecond; ; {
		select {
		case <-ended:
			for _, on := range all {
				if n := on.taken.Load(); n != processes*workers*times {
					t.Errorf("%s: %d turns, want %d", on.name, n, processes*workers*times)
				}
				if n := number(t, server, "EXISTS", "lock:"+on.name, "lock:~q:{lock:"+on.name+"}"); n != 0 {
					t.Errorf("%s: %d keys are left", on.name, n)
				}
			}
			return
		case <-time.After(pause):
			misfortune(t, server, crew[rand.N(len(crew))])
		}
	}
}

// misfortune does one thing that must not matter.
func misfortune(t *testing.T, server *redistest.Server, p *process) {
	switch rand.N(4) {
	case 0:
		p.proxy.Cut()
	case 1:
		p.proxy.DropReplies()
		time.AfterFunc(10*time.Millisecond, p.proxy.Heal)
	case 2:
		server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	default:
		do(t, server, "SCRIPT", "FLUSH")
	}
}
