package doctor

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// listening is what came of joining a channel and leaving it.
type listening struct {
	failed  error    // the first one
	missing []string // what to add to the user
}

// listen joins a channel and leaves it again.
func (t *trial) listen(ctx context.Context) (l listening) {
	s := t.server
	join, leave := s.client.B().Subscribe().Channel(s.key).Build(), s.client.B().Unsubscribe().Channel(s.key).Build()
	if s.cluster {
		join, leave = s.client.B().Ssubscribe().Channel(s.key).Build(), s.client.B().Sunsubscribe().Channel(s.key).Build()
	}
	joined := s.join(ctx, join)
	left := s.send(ctx, leave).Error() // does nothing if it was not joined
	l.note(t, subscribeRight.sharded(s.cluster), joined)
	l.note(t, unsubscribeRight.sharded(s.cluster), left)
	return l
}

func (l *listening) note(t *trial, want right, err error) {
	t.note(want, err)
	if l.failed == nil {
		l.failed = err
	}
	if isNoPerm(err) {
		l.missing = append(l.missing, t.server.missing(want.command, err))
	}
}

// join waits until the channel is joined. In a cluster the channel may be another
// server's, which is asked for after the rights.
func (s *server) join(ctx context.Context, command rueidis.Completed) error {
	ctx, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	var joined atomic.Bool
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(now rueidis.PubSubSubscription) {
		if strings.HasSuffix(now.Kind, "subscribe") {
			joined.Store(true)
			cancel()
		}
	})
	err := s.client.Receive(hooked, command, func(rueidis.PubSubMessage) {})
	if joined.Load() || isMoved(err) {
		return nil
	}
	return err
}

// pubsub says whether waiters can be told of a release.
func (t *trial) pubsub(r *report, l listening) {
	check := "pubsub"
	if t.server.cluster {
		check = "sharded-pubsub"
	}
	const why = "waiters are not told of a release, and ask again and again instead"
	switch {
	case l.failed == nil:
		r.ok(check, "allowed")
	case len(l.missing) > 0:
		r.add(Warning, check, "user "+t.server.user()+" may not: "+strings.Join(l.missing, ", "), why, t.server.allow(l.missing...))
	default:
		r.add(Warning, check, oneLine(l.failed), why, "")
	}
}
