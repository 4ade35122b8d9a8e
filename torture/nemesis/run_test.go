package nemesis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
)

var (
	moment  = Kind{Name: "moment", Lane: Servers}
	lasting = Kind{Name: "lasting", Lane: Servers}
	slow    = Kind{Name: "slow", Lane: Networks}
	broken  = Kind{Name: "broken", Lane: Processes}
)

var errBroken = errors.New("broken")

// journal is what actions did, in their order.
type journal struct {
	mu     sync.Mutex
	lines  []string
	events []history.Event
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) runner() *Runner {
	lasts := func(f Fault) (string, func() error, error) {
		j.note("begin " + f.Kind.Name)
		return "target", func() error {
			j.note("end " + f.Kind.Name)
			return nil
		}, nil
	}
	return &Runner{
		Do: map[string]Action{
			"moment": func(Fault) (string, func() error, error) {
				j.note("moment")
				return "target", nil, nil
			},
			"lasting": lasts,
			"slow":    lasts,
			"broken":  func(Fault) (string, func() error, error) { return "", nil, errBroken },
		},
		Record: func(e history.Event) {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.events = append(j.events, e)
		},
	}
}

func TestFaultsAreDoneAndHealedWhenThePlanSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		err := j.runner().Run(t.Context(), time.Now(), []Fault{
			{Kind: slow, Worker: 1, At: 500 * time.Millisecond, For: time.Hour},
			{Kind: lasting, At: time.Second, For: time.Second},
			{Kind: moment, At: 3 * time.Second},
		})
		want := []string{"begin slow", "begin lasting", "end lasting", "moment", "end slow"}
		if err != nil || !slices.Equal(j.lines, want) {
			t.Errorf("done %q, %v, want %q", j.lines, err, want)
		}
	})
}

func TestEveryFaultIsRecordedWithItsHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		err := j.runner().Run(t.Context(), time.Now(), []Fault{
			{Kind: lasting, At: time.Second, For: time.Second},
			{Kind: moment, At: 3 * time.Second},
		})
		if err != nil || len(j.events) != 4 {
			t.Fatalf("recorded %v, %v, want 4 events", j.events, err)
		}
		for i := range 2 {
			fault, heal := j.events[2*i], j.events[2*i+1]
			if fault.Kind != history.Fault || heal.Kind != history.Heal || fault.Op != heal.Op || fault.Name != "target" || fault.At > heal.At {
				t.Errorf("recorded %+v and %+v", fault, heal)
			}
		}
	})
}

func TestWhenTheRunIsStoppedEverythingIsHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := j.runner().Run(ctx, time.Now(), []Fault{
			{Kind: lasting, At: time.Second, For: time.Hour},
			{Kind: moment, At: 2 * time.Hour},
		})
		if want := []string{"begin lasting", "end lasting"}; !errors.Is(err, context.DeadlineExceeded) || !slices.Equal(j.lines, want) {
			t.Errorf("done %q, %v, want %q", j.lines, err, want)
		}
	})
}

func TestAFaultThatCannotBeDoneEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		err := j.runner().Run(t.Context(), time.Now(), []Fault{
			{Kind: lasting, At: time.Second, For: time.Hour},
			{Kind: broken, Worker: 1, At: 2 * time.Second},
			{Kind: moment, At: 2 * time.Hour},
		})
		if want := []string{"begin lasting", "end lasting"}; !errors.Is(err, errBroken) || !slices.Equal(j.lines, want) {
			t.Errorf("done %q, %v, want %q", j.lines, err, want)
		}
	})
}
