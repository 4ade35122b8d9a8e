package command

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
)

func (a *app) waitCommand() *cobra.Command {
	limit := wait{forever: true}
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until a lock is free",
		Long: `Wait returns when nobody holds the lock, without taking it: somebody else may have
it the next moment. Exit code 0: it was free; 75: it was still held after --wait.`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			signals := catchSignals()
			return orSignal(cmd.Context(), signals, nil, func(ctx context.Context) error {
				s, err := a.open(ctx, holdfast.Config{})
				if err != nil {
					return err
				}
				defer s.close(ctx)
				return a.waitFree(ctx, s, args[0], limit)
			})
		},
	}
	cmd.Flags().VarP(&limit, "wait", "w", "wait this long at the most")
	return cmd
}

// The pauses of waitFree, of which jitter takes up to a half, and how long after
// the holder's time is over its key is gone.
const (
	firstPoll   = 20 * time.Millisecond
	slowestPoll = 500 * time.Millisecond
	afterEnd    = 5 * time.Millisecond
)

// waitFree asks who holds the name when the store tells of a release, when the
// holder's time is over, and now and then, with growing pauses.
func (a *app) waitFree(ctx context.Context, s *session, name string, limit wait) error {
	began := time.Now()
	var woken <-chan struct{}
	if notifier, ok := s.store.(driver.Notifier); ok && driver.CheckName(name) == nil {
		channel, stop := notifier.Subscribe(name)
		defer stop()
		woken = channel
	}
	for poll := firstPoll; ; poll = min(2*poll, slowestPoll) {
		state, err := s.locker.Inspect(ctx, name)
		if err != nil || len(state.Holders) == 0 {
			return err
		}
		pause := poll/2 + rand.N(poll/2)
		if left := state.Holders[0].Left; left >= 0 {
			pause = min(pause, left+afterEnd)
		}
		if !limit.forever {
			left := limit.limit - time.Since(began)
			if left <= 0 {
				return exitWith(codeHeld, "%s is still held by %s", clean(name), clean(state.Holders[0].Owner()))
			}
			pause = min(pause, left)
		}
		select {
		case <-woken:
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
