package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
)

// The least rights, as the package comment and docs/stores.md have them.
var (
	commonRights = words("~lock:* +get +pttl +hmget +time +set +hset +pexpire +del +hlen +hdel +scan +info" +
		" +zadd +zremrangebyrank +zrevrange")
	scriptRights = append(words("&lock:* +evalsha +eval +hgetall +zrank +zrem +zpopmin +publish +subscribe +unsubscribe"), commonRights...)
	quietRights  = append(words("+evalsha +eval +hgetall +zrank +zrem"), commonRights...)
	plainRights  = append(words("&lock:* +watch +multi +exec +hscan +zrange +publish"), commonRights...)
)

func words(text string) []string { return strings.Fields(text) }

// officer is somebody who does all that a store is asked for.
type officer struct {
	server *redistest.Server
	warned atomic.Bool
	*Store
}

// deploy returns an officer with these rights.
func deploy(t *testing.T, server *redistest.Server, rights []string) *officer {
	t.Helper()
	do(t, server, "FLUSHALL")
	do(t, server, "SCRIPT", "FLUSH")
	do(t, server, append([]string{"ACL", "SETUSER", "app", "reset", "on", ">pw"}, rights...)...)
	o := &officer{server: server}
	options := userOptions(server, "app")
	options.Warn = func(text string) {
		if strings.Contains(text, "maxmemory-policy") {
			o.warned.Store(true)
		}
	}
	o.Store = openWith(t, options)
	return o
}

// duties are those of an officer: the common ones, and some more.
func (o *officer) duties(ctx context.Context, more func(context.Context, driver.AcquireRequest) error) error {
	req := request("duty")
	for i := range 59 { // tombstones that are over: with what a grant and a release write there will be 64 fields
		o.server.Do("HSET", "lock:~f:{lock:duty}", fmt.Sprintf("x:%d", i), "1")
	}
	result, err := o.Acquire(ctx, req)
	if err != nil || !result.Granted {
		return fmt.Errorf("acquire: granted %v, %w", result.Granted, err)
	}
	if again, err := o.Acquire(ctx, longer(req)); err != nil || again.Fence != result.Fence {
		return fmt.Errorf("acquire again: %+v, %w", again, err)
	}
	if other, err := o.Acquire(ctx, request("duty")); err != nil || len(other.State.Holders) != 1 {
		return fmt.Errorf("refusal: %+v, %w", other, err)
	}
	extended := o.Extend(ctx, []driver.ExtendRequest{{Name: "duty", Token: req.Token, TTL: time.Hour}})[0]
	if extended.Err != nil || extended.Answer != driver.Mine {
		return fmt.Errorf("extend: %+v", extended)
	}
	for _, err := range o.List(ctx, "*") {
		if err != nil {
			return err
		}
	}
	if err := o.slotDuties(ctx, req, result.Fence); err != nil {
		return err
	}
	if err := more(ctx, req); err != nil {
		return err
	}
	if _, err := o.Release(ctx, driver.ReleaseRequest{Name: "duty", Token: req.Token, Tombstone: time.Minute}); err != nil {
		return err
	}
	if _, err := o.Acquire(ctx, req); !errors.Is(err, driver.ErrWithdrawn) {
		return fmt.Errorf("acquire by a tombstoned token: %w", err)
	}
	if n, _ := o.server.Do("HLEN", "lock:~f:{lock:duty}").AsInt64(); n > 32 {
		return fmt.Errorf("the companion has %d fields", n)
	}
	if !o.warned.Load() {
		return errors.New("not warned of eviction")
	}
	return nil
}

func (o *officer) slotDuties(ctx context.Context, req driver.AcquireRequest, fence int64) error {
	begun, err := o.BeginSlot(ctx, driver.BeginRequest{Job: req.Name, Slot: "s", Token: req.Token, Fence: fence})
	if err != nil || begun.Verdict != driver.Begun {
		return fmt.Errorf("begin: %+v, %w", begun, err)
	}
	done, err := o.FinishSlot(ctx, driver.FinishRequest{Job: req.Name, Slot: "s", Token: req.Token, Fence: fence, Keep: time.Hour})
	if err != nil || done != driver.Mine {
		return fmt.Errorf("finish: %v, %w", done, err)
	}
	if runs, err := o.Runs(ctx, req.Name, 1); err != nil || len(runs) != 1 {
		return fmt.Errorf("runs: %+v, %w", runs, err)
	}
	return nil
}

// queueDuties have the name handed on to a waiter.
func (o *officer) queueDuties(ctx context.Context, _ driver.AcquireRequest) error {
	listening := make(chan struct{}, 100)
	inbox := o.OpenInbox(driver.Listener{Handed: func(driver.HandOff) {}, Restored: func() { listening <- struct{}{} }})
	err := o.handOn(ctx, inbox, listening)
	inbox.Close()
	if channels, _ := o.server.Do("PUBSUB", "CHANNELS").AsStrSlice(); err == nil && len(channels) > 0 {
		return errors.New("a channel is still listened to")
	}
	return err
}

func (o *officer) handOn(ctx context.Context, inbox driver.Inbox, listening <-chan struct{}) error {
	for !o.inboxes.refused.Load() && len(listening) == 0 {
		time.Sleep(time.Millisecond)
	}
	held := request("queue")
	if _, err := o.Acquire(ctx, held); err != nil {
		return err
	}
	waiter := driver.QueueRequest{AcquireRequest: request("queue"), Inbox: inbox.Address(), Keep: time.Minute}
	if result, err := o.Enqueue(ctx, waiter); err != nil || result.Granted {
		return fmt.Errorf("enqueue: %+v, %w", result, err)
	}
	leaver := driver.QueueRequest{AcquireRequest: request("queue"), Inbox: inbox.Address(), Keep: time.Minute}
	if _, err := o.Enqueue(ctx, leaver); err != nil {
		return err
	}
	if _, err := o.Release(ctx, driver.ReleaseRequest{Name: "queue", Token: leaver.Token, Inbox: leaver.Inbox}); err != nil {
		return err
	}
	if _, err := o.Release(ctx, driver.ReleaseRequest{Name: "queue", Token: held.Token}); err != nil {
		return err
	}
	if state, err := o.Inspect(ctx, "queue"); err != nil || len(state.Holders) != 1 || state.Holders[0].Token != waiter.Token {
		return fmt.Errorf("handed on: %+v, %w", state, err)
	}
	if n, _ := o.server.Do("ZCARD", "lock:~q:{lock:queue}").AsInt64(); n != 0 {
		return errors.New("a place was not given up")
	}
	return nil
}

// exact checks that these rights are enough, and that none can be left out.
func exact(t *testing.T, rights []string, duties func(ctx context.Context, o *officer) error) {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	policy(t, server, "allkeys-lru")
	if err := duties(within(t), deploy(t, server, rights)); err != nil {
		t.Errorf("with all of them: %v", err)
	}
	for i, right := range rights {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if err := duties(ctx, deploy(t, server, slices.Delete(slices.Clone(rights), i, i+1))); err == nil {
			t.Errorf("%s is not needed", right)
		}
		cancel()
	}
}

func TestTheLeastRightsAreExact(t *testing.T) {
	exact(t, scriptRights, func(ctx context.Context, o *officer) error { return o.duties(ctx, o.queueDuties) })
}

func TestTheLeastRightsWithoutScriptsAreExact(t *testing.T) {
	exact(t, plainRights, func(ctx context.Context, o *officer) error {
		return o.duties(ctx, func(ctx context.Context, req driver.AcquireRequest) error { return o.hintDuty(ctx, t) })
	})
}

// hintDuty has a waiter who may run scripts told of a release.
func (o *officer) hintDuty(ctx context.Context, t *testing.T) error {
	t.Helper()
	scripts := open(t, o.server.Addr())
	defer scripts.Close()
	inbox := listen(t, scripts)
	held := request("hinted")
	if _, err := o.Acquire(ctx, held); err != nil {
		return err
	}
	waiting(t, scripts, held.Name, inbox, 0)
	if _, err := o.Release(ctx, driver.ReleaseRequest{Name: held.Name, Token: held.Token}); err != nil {
		return err
	}
	select {
	case <-inbox.hints:
		return nil
	case <-ctx.Done():
		return errors.New("the waiter is not told")
	}
}

func TestTheLeastRightsWithoutChannelsAreExact(t *testing.T) {
	exact(t, quietRights, func(ctx context.Context, o *officer) error {
		return o.duties(ctx, func(ctx context.Context, held driver.AcquireRequest) error {
			// As a waiter asks who has not heard yet that it can't subscribe.
			for name, free := range map[string]bool{held.Name: false, "free": true} {
				req := driver.QueueRequest{AcquireRequest: request(name), Inbox: "lock:~i:x", Keep: time.Minute}
				if result, err := o.Enqueue(ctx, req); err != nil || result.Granted != free {
					return fmt.Errorf("enqueue: %+v, %w", result, err)
				}
			}
			return nil
		})
	})
}
