package doctor

import (
	"context"

	"github.com/redis/rueidis"
)

// scripted tries scripts, and where there are none, the transactions that take
// their place. It returns what says so, and whether it is the transactions.
func (t *trial) scripted(ctx context.Context) (tell func(*report), plain bool) {
	var failed error
	answers := make([]error, len(scripting))
	for i, want := range scripting {
		answers[i] = t.server.do(ctx, t.server.words(want.try)...).Error()
		if isNoPerm(answers[i]) || isUnknown(answers[i]) {
			failed = answers[i]
		}
	}
	severity := Failure
	if failed != nil && t.server.transacts(ctx) {
		severity = Warning
	}
	for i, want := range scripting {
		want.severity = severity
		t.note(want, answers[i])
	}
	return func(r *report) { t.scripts(r, failed, severity) }, severity == Warning
}

func (t *trial) scripts(r *report, failed error, severity Severity) {
	fix := ""
	if isNoPerm(failed) {
		fix = t.server.allow("+eval", "+evalsha")
	}
	switch {
	case failed == nil:
		r.ok("scripts", "allowed")
	case severity == Warning:
		r.add(Warning, "scripts", "not allowed; transactions are", "an acquire takes two round trips instead of one, and who waits has no place in a queue, and polls", fix)
	default:
		r.add(Failure, "scripts", "not allowed, nor are WATCH, MULTI and EXEC", "a fence is given in one step with the lock, by a script or a transaction", fix)
	}
}

// transacts says whether an empty transaction is carried out. It has a connection
// of its own, which is closed, since it may be left in the middle.
func (s *server) transacts(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	allowed := true
	err := s.client.Dedicated(func(own rueidis.DedicatedClient) error {
		defer own.Close()
		for _, words := range [][]string{{"WATCH", s.key}, {"UNWATCH"}, {"MULTI"}, {"EXEC"}} {
			err := own.Do(limited, own.B().Arbitrary(words...).Build()).Error()
			allowed = allowed && (words[0] == "UNWATCH" || err == nil || isMoved(err))
		}
		return nil
	})
	return err == nil && allowed
}
