package drivertest

import (
	"runtime"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// notifier returns nil, and says so, where the store can't notify.
func (t *trial) notifier() driver.Notifier {
	notifier, ok := t.b.(driver.Notifier)
	if !ok {
		t.Log("left out: this store does not notify")
	}
	return notifier
}

// woken waits for a value; it may be called on any goroutine.
func (t *trial) woken(wake <-chan struct{}, what string) bool {
	t.Helper()
	select {
	case <-wake:
		return true
	case <-time.After(patience):
		t.Errorf("not woken in %v: %s", patience, what)
		return false
	}
}

// drain forgets hints that were not read.
func drain(wake <-chan struct{}) {
	select {
	case <-wake:
	default:
	}
}

// aReleaseBeforeSubscribeIsSignalled: between the failed try and the
// subscription the name became free, and nothing else will ever happen to it.
func aReleaseBeforeSubscribeIsSignalled(t *trial) {
	notifier := t.notifier()
	if notifier == nil {
		return
	}
	held, waiter := request("signal"), request("signal")
	t.acquire(t.a, held)
	t.refuse(t.b, waiter)
	t.release(t.a, held, driver.Mine)
	wake, stop := notifier.Subscribe(held.Name)
	defer stop()
	t.woken(wake, "the subscription is active, look again")
	t.acquire(t.b, waiter)
}

func eachReleaseIsSignalled(t *trial) {
	notifier := t.notifier()
	if notifier == nil {
		return
	}
	for _, name := range t.acceptable("signal", "a b/ü:%[x]*", "{tag}signal") {
		wake, stop := notifier.Subscribe(name)
		defer stop()
		t.woken(wake, "the subscription is active")
		for range 10 {
			held := request(name)
			t.acquire(t.a, held)
			drain(wake)
			t.release(t.a, held, driver.Mine)
			if !t.woken(wake, "the name was released") {
				return
			}
		}
	}
}

// waitersNeedNoTimer has waiters that try only when they are woken. If one
// wake-up were lost they would wait for ever.
func waitersNeedNoTimer(t *trial) {
	notifier := t.notifier()
	if notifier == nil {
		return
	}
	const waiters, turns = 4, 5
	t.together(waiters, func(_ int, store driver.Store) {
		wake, stop := notifier.Subscribe("no timer")
		defer stop()
		for range turns {
			req := request("no timer")
			if !t.wait(store, req, wake) {
				return
			}
			answer, err := store.Release(t.in(), driver.ReleaseRequest{Name: req.Name, Token: req.Token})
			if err != nil || answer != driver.Mine {
				t.Errorf("Release answered %v, %v, want mine", answer, err)
				return
			}
		}
	})
}

// wait acquires, trying again only when woken.
func (t *trial) wait(store driver.Store, req driver.AcquireRequest, wake <-chan struct{}) bool {
	for t.woken(wake, "the name was released") {
		result, err := store.Acquire(t.in(), req)
		if err != nil {
			t.Errorf("Acquire: %v", err)
			return false
		}
		if result.Granted {
			return true
		}
	}
	return false
}

func stopEndsOneSubscriptionOnly(t *trial) {
	notifier := t.notifier()
	if notifier == nil {
		return
	}
	wake, stop := notifier.Subscribe("stop")
	defer stop()
	t.woken(wake, "the first subscription is active")
	_, stopOther := notifier.Subscribe("stop")
	stopOther()
	held := request("stop")
	t.acquire(t.a, held)
	drain(wake)
	t.release(t.a, held, driver.Mine)
	t.woken(wake, "the name was released, after another subscription was stopped")
}

// stopLeavesNothing subscribes often, and stops before and after the
// subscription is active.
func stopLeavesNothing(t *trial) {
	notifier := t.notifier()
	if notifier == nil {
		return
	}
	const times, slack = 100, 20
	wake, stop := notifier.Subscribe("stop") // what a store starts once, it may keep
	t.woken(wake, "the subscription is active")
	stop()
	before := runtime.NumGoroutine()
	for i := range times {
		wake, stop := notifier.Subscribe("stop")
		if i%2 == 0 && !t.woken(wake, "the subscription is active") {
			return
		}
		stop()
	}
	t.eventually("no goroutine is left for each subscription that was stopped", func() bool {
		return runtime.NumGoroutine() <= before+slack
	})
}
