package holdfast

import (
	"testing"
	"testing/synctest"
	"time"
)

// moment is a fake instant: so much after the start by each clock.
func moment(mono, boot, wall time.Duration) instant {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	return instant{at: start.Add(mono), boot: time.Hour + boot, wall: 1e18 + wall}
}

// running is a moment at which all clocks agree.
func running(d time.Duration) instant { return moment(d, d, d) }

func TestAGrantIsTrustedForItsTTLLessDriftAndMargin(t *testing.T) {
	for _, c := range []struct{ ttl, want time.Duration }{
		{100 * time.Millisecond, 89 * time.Millisecond},
		{time.Second, 980 * time.Millisecond},
		{30 * time.Second, 29400 * time.Millisecond},
	} {
		w := newWindow(running(0), c.ttl)
		if got := w.left(running(0)); got != c.want {
			t.Errorf("a TTL of %v is trusted for %v, want %v", c.ttl, got, c.want)
		}
		if got := w.deadline().Sub(running(0).at); got != c.want {
			t.Errorf("a TTL of %v has its deadline after %v, want %v", c.ttl, got, c.want)
		}
	}
}

func TestAWindowIsOverByTheClockThatCountedMost(t *testing.T) {
	w := newWindow(running(0), 10*time.Second)
	for _, c := range []struct {
		what string
		now  instant
		want time.Duration
	}{
		{"all clocks agree", running(4 * time.Second), 5800 * time.Millisecond},
		{"the machine was suspended", moment(time.Second, 20*time.Second, 20*time.Second), -10200 * time.Millisecond},
		{"the system has no boot clock", moment(3*time.Second, 0, 3*time.Second), 6800 * time.Millisecond},
		{"the wall clock stepped forward", moment(time.Second, time.Second, time.Hour), 8800 * time.Millisecond},
		{"the wall clock stepped back", moment(time.Second, time.Second, -time.Hour), 8800 * time.Millisecond},
	} {
		if got := w.left(c.now); got != c.want {
			t.Errorf("%s: %v left, want %v", c.what, got, c.want)
		}
	}
}

func TestALateReplyDoesNotLengthenTheWindow(t *testing.T) {
	old := newWindow(running(0), 10*time.Second)
	sent := running(3 * time.Second)
	reply := running(9 * time.Second) // six seconds on its way
	renewed := old.later(newWindow(sent, 10*time.Second), reply)
	if got, want := renewed.left(reply), 3800*time.Millisecond; got != want {
		t.Errorf("%v left after the late reply, want %v: counted from the request", got, want)
	}
}

func TestARenewalNeverShortensTheWindow(t *testing.T) {
	long := newWindow(running(0), time.Hour)
	now := running(time.Second)
	if got := long.later(newWindow(now, time.Second), now); got != long {
		t.Errorf("the window became %v", got.left(now))
	}
}

func TestAWindowIsCappedByTheLongestHold(t *testing.T) {
	granted := running(0)
	w := newWindow(running(8*time.Second), 10*time.Second).capped(granted, 12*time.Second)
	if got, want := w.left(running(8*time.Second)), 4*time.Second; got != want {
		t.Errorf("%v left, want %v", got, want)
	}
}

func TestAJumpIsSeenWhenTheClocksDisagree(t *testing.T) {
	for _, c := range []struct {
		what string
		now  instant
		want bool
	}{
		{"all clocks agree", running(time.Minute), false},
		{"slewing by NTP", moment(time.Minute, time.Minute, time.Minute+30*time.Millisecond), false},
		{"suspended", moment(0, time.Minute, time.Minute), true},
		{"set forward", moment(time.Second, time.Second, time.Hour), true},
		{"set back", moment(time.Second, time.Second, -time.Hour), true},
		{"no boot clock", moment(time.Minute, 0, time.Minute), false},
	} {
		if got := c.now.jumped(running(0), time.Second); got != c.want {
			t.Errorf("%s: jumped is %v", c.what, got)
		}
	}
}

func TestTheSystemClockIsGosAloneInABubble(t *testing.T) {
	if outside := systemClock()(); outside.boot == 0 {
		if _, ok := readBoottime(); ok {
			t.Error("outside a bubble CLOCK_BOOTTIME is not read")
		}
	}
	synctest.Test(t, func(t *testing.T) {
		if inside := systemClock()(); inside.boot != 0 {
			t.Error("inside a bubble CLOCK_BOOTTIME is read")
		}
	})
}

// clocksAt are the clocks of a machine, and count how often boottime is read.
type clocksAt struct {
	mono, wall, boot time.Duration
	reads            int
}

func (c *clocksAt) bootClock() *bootClock {
	return &bootClock{
		clock: func() instant { return moment(c.mono, 0, c.wall) },
		boottime: func() (time.Duration, bool) {
			c.reads++
			return c.boot, true
		},
	}
}

func (c *clocksAt) run(mono, wall, boot time.Duration) {
	c.mono, c.wall, c.boot = c.mono+mono, c.wall+wall, c.boot+boot
}

func TestASuspensionIsSeenThoughBoottimeIsSeldomRead(t *testing.T) {
	const tick = 10 * time.Millisecond
	c := &clocksAt{boot: time.Hour}
	clock := c.bootClock()
	began := clock.now()
	for range 20 {
		c.run(tick, tick, tick)
		if got := clock.now().since(began); got != c.mono {
			t.Fatalf("after %v awake: %v", c.mono, got)
		}
	}
	if c.reads != 1 {
		t.Errorf("boottime was read %d times in 0.2 s", c.reads)
	}
	c.run(tick, tick+time.Minute, tick+time.Minute) // suspended for a minute
	if got := clock.now().since(began); got != c.mono+time.Minute {
		t.Errorf("after a minute of suspension: %v", got)
	}
	c.run(tick, tick, tick+time.Minute) // and the wall clock was set back by as much
	c.run(readAgain, readAgain, readAgain)
	if got := clock.now().since(began); got != c.mono+2*time.Minute {
		t.Errorf("a second after a suspension that the wall clock hides: %v", got)
	}
}

func TestAPauseBetweenTheClocksIsNotTakenForASuspension(t *testing.T) {
	c := &clocksAt{}
	clock := c.bootClock()
	read := clock.boottime
	clock.boottime = func() (time.Duration, bool) {
		boot, ok := read()
		if c.reads == 1 { // stopped after Go's clock was read
			c.run(time.Minute, time.Minute, time.Minute)
			boot = c.boot
		}
		return boot, ok
	}
	clock.now()
	after := clock.now()
	c.run(time.Second/2, time.Second/2, time.Second/2)
	if got := clock.now().since(after); got != time.Second/2 {
		t.Errorf("half a second counts %v", got)
	}
	if c.reads != 2 {
		t.Errorf("boottime was read %d times: the reading that took a minute was kept", c.reads)
	}
}
