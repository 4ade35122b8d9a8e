package quorum

import (
	"sync"
	"sync/atomic"
	"time"
)

// key is one token's claim to one name.
type key struct{ name, token string }

// tenure is what this process knows of one token's hold on a name, and of its
// attempts at it.
type tenure struct {
	key
	users int       // of Store.mu: requests under way
	over  bool      // of Store.mu: nothing of it is to be kept but a doubt
	doubt bool      // of Store.mu: a part is barred
	until time.Time // of Store.mu: how long it is worth keeping

	parts []part // one for each node
	lane  *lane

	mu    sync.Mutex
	held  bool // granted, and not released
	grant grant
	asked nodeSet     // where acquires have been sent to
	fills *time.Timer // asks the others; nil: all were asked
	freed nodeSet     // nodes freed by a release that, as a whole, had no answer
}

// grant is what a vote has won.
type grant struct {
	last  int64     // the last of the fencing tokens agreed on; 0: none
	since time.Time // when it was asked for
}

// part is the tenure at one node.
type part struct {
	// mu is held while a request for the token is under way to the node: what
	// one request leaves behind is known when the next one is sent.
	mu      sync.Mutex
	freed   sync.Cond   // of mu: freeing is over
	freeing atomic.Bool // a release is under way, or about to be
	sent    int         // how many requests so far
	number  int64       // the last of the fencing tokens that the node gave; 0: unknown
	granted bool        // and not freed, as far as the node has answered
	// unheard says that a request was not answered: it may be carried out yet.
	unheard bool
	// barred is until when a release may arrive late, or the node refuses the
	// token: it can't count for the token so long.
	barred time.Time
}

// leftover says whether the node holds the name for the token, or may do so yet.
// The caller holds the part's mutex.
func (p *part) leftover() bool { return p.granted || p.unheard }

func (t *tenure) granted() grant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.grant
}

func (t *tenure) isHeld() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held
}

func (t *tenure) hold(won grant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held, t.grant, t.freed = true, won, 0
}

// ask notes that an acquire is about to be sent to a node.
func (t *tenure) ask(node int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = t.asked.with(node)
}

// release ends it, and returns at which nodes it may be, all unless it was won by
// this process, and which were freed before by a release that had no answer.
func (t *tenure) release(all nodeSet) (at, freed nodeSet) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fills != nil {
		t.fills.Stop()
	}
	at, freed = all, t.freed
	if t.held {
		at = t.asked
	}
	t.held, t.grant, t.freed = false, grant{}, 0
	return at, freed
}

func (t *tenure) remember(freed nodeSet) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.freed = freed
}
