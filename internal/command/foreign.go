package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/open"
)

// endless is said of a lock without an expiry.
const endless = "never ends by itself: SETNX and a crash?"

// foreignLock is a key that looks like a lock, in JSON. It has no token, which
// would prove ownership.
type foreignLock struct {
	Key     string `json:"key"`
	State   string `json:"state"`
	Library string `json:"library"` // empty: not known
	Kind    string `json:"kind"`
	Holder  string `json:"holder"`
	TTLLeft *int64 `json:"ttl_left_ms"` // null: no expiry
	Basis   string `json:"basis"`
	Note    string `json:"note"`
}

// runForeign lists what looks like a lock at the whole server.
func (l *list) runForeign(ctx context.Context, s *session, pattern string) error {
	lister, ok := s.store.(driver.ForeignLister)
	if !ok {
		return exitWith(codeMisconfigured, "the store %s holds no locks of other programs; --foreign is for Redis", open.Place(s.url))
	}
	ctx, done := l.progress(ctx)
	defer done()
	var found []driver.ForeignLock
	for lock, err := range lister.ListForeign(ctx, pattern) {
		if err != nil {
			return err
		}
		found = append(found, lock)
	}
	done()
	slices.SortFunc(found, func(a, b driver.ForeignLock) int { return cmp.Compare(a.Key, b.Key) })
	return l.writeForeign(found)
}

func (l *list) writeForeign(found []driver.ForeignLock) error {
	switch l.form {
	case formJSON:
		locks := make([]foreignLock, len(found))
		for i, lock := range found {
			locks[i] = foreignJSON(lock)
		}
		return l.writeJSON(locks)
	case formName:
		for _, lock := range found {
			if _, err := fmt.Fprintln(l.stdout, shownKey(lock.Key)); err != nil {
				return err
			}
		}
		return nil
	default:
		return l.writeForeignTable(found)
	}
}

func (l *list) writeForeignTable(found []driver.ForeignLock) error {
	w := tabwriter.NewWriter(l.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tSTATE\tLOOKS LIKE\tKIND\tHOLDER\tTTL LEFT\tNOTE")
	for _, lock := range found {
		note := clean(lock.Basis)
		switch {
		case lock.Left < 0 && l.form == formWide:
			note = endless + "; " + note
		case lock.Left < 0:
			note = endless
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", shownKey(lock.Key), foreignStands(lock),
			cmp.Or(lock.Library, "unknown"), lock.Kind, cmp.Or(l.cut(lock.Holder), "-"), left(lock.Left), note)
	}
	return w.Flush()
}

// shownKey is a key as redis-cli takes it: whole, to be typed.
func shownKey(key string) string {
	if clean(key) != key {
		return strconv.Quote(key)
	}
	return key
}

// ownLibrary is how a driver names our own locks.
const ownLibrary = "holdfast"

func foreignStands(lock driver.ForeignLock) string {
	return stands(lock.Library != ownLibrary, lock.Left)
}

// stands is the state of a lock that is held.
func stands(foreign bool, left time.Duration) string {
	switch {
	case left < 0:
		return "stuck?"
	case foreign:
		return "foreign"
	default:
		return "held"
	}
}

func foreignJSON(lock driver.ForeignLock) foreignLock {
	j := foreignLock{
		Key: lock.Key, State: foreignStands(lock), Library: lock.Library, Kind: lock.Kind,
		Holder: lock.Holder, TTLLeft: leftJSON(lock.Left), Basis: lock.Basis,
	}
	if lock.Left < 0 {
		j.Note = endless
	}
	return j
}
