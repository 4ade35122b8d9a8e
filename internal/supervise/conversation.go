package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/holdfastlock/holdfast"
)

// conversation is holdfast's side of one job.
type conversation struct {
	*supervisor
	job   Job
	lease Lease
	tty   terminal
	group processGroup // 0 until the command was started
	// lent says that the command was to be started in the foreground.
	lent bool

	// continued receives when we go on after a stop.
	continued chan os.Signal
	// confirmed receives when the lease was found to hold after a stop.
	confirmed  chan struct{}
	confirming sync.WaitGroup
}

// stopPatience is how long we wait for our own stop to take effect. It never
// does where no shell could make us go on.
const stopPatience = 100 * time.Millisecond

func (c *conversation) run() (Outcome, error) {
	ctx, cancel := context.WithCancel(c.lease.Context())
	defer c.confirming.Wait()
	defer cancel()
	c.confirmed = make(chan struct{}, 1)
	c.continued = make(chan os.Signal, 1)
	if c.tty.exists {
		signal.Notify(c.continued, syscall.SIGCONT)
		defer signal.Stop(c.continued)
		defer c.takeBack()
		c.lent = c.tty.lend()
	}
	c.send(order{
		Start:    &startOrder{Rules: c.job.Rules, Foreground: c.lent},
		Deadline: sharedMoment(c.lease.Deadline()),
	})
	return c.listen(ctx)
}

// listen passes on what happens until the supervisor has made its last report.
func (c *conversation) listen(ctx context.Context) (Outcome, error) {
	ended := c.lease.Context().Done()
	var stopping, backstop <-chan time.Time
	stopped := false
	for {
		select {
		case r, alive := <-c.reports:
			if outcome, err, last := c.hear(r, alive); last {
				outcome.Stopped = stopped
				return outcome, err
			}
			if r.Stopped && c.tty.exists {
				c.stop()
				stopping = time.After(stopPatience)
			}
		case sig := <-c.job.Signals:
			number, _ := sig.(syscall.Signal)
			stopped = stopped || number == syscall.SIGTERM || number == syscall.SIGINT
			c.send(order{Signal: number})
		case <-c.job.Renewed:
			c.send(order{Deadline: sharedMoment(c.lease.Deadline())})
		case <-ended:
			ended = nil
			backstop = c.lose()
		case <-backstop:
			_ = c.cmd.Process.Kill() // the end of its reports is the next we hear
		case <-c.continued:
			stopping = nil
			c.confirm(ctx)
		case <-stopping:
			stopping = nil
			c.confirm(ctx)
		case <-c.confirmed:
			c.resume()
		}
	}
}

// hear takes a report and says whether it was the last.
func (c *conversation) hear(r report, alive bool) (outcome Outcome, err error, last bool) {
	switch {
	case !alive:
		c.killGroup()
		lost := c.lease.Context().Err() != nil
		return Outcome{Code: SignalCode(syscall.SIGKILL), Lost: lost, Unwatched: true}, nil, true
	case r.Failed == syscall.EAGAIN, r.Failed == syscall.ENOMEM:
		return Outcome{}, fmt.Errorf("%w: %w", ErrSystem, r.Failed), true
	case r.Failed != 0:
		return Outcome{}, &fs.PathError{Op: "exec", Path: c.job.Command.path, Err: r.Failed}, true
	case r.Ended != nil:
		// The command may have ended before the supervisor heard of the loss.
		r.Ended.Lost = r.Ended.Lost || c.lease.Context().Err() != nil
		return *r.Ended, nil, true
	case r.Group != 0:
		c.group = processGroup(r.Group)
	case r.Leaderless && c.tty.exists && !c.group.alive():
		c.takeBack() // else keys would reach nobody while we wait for the rest
	}
	return Outcome{}, nil, false
}

// lose tells the supervisor that the lease is lost, and returns when it must
// have made its last report if it is not frozen; nil means any time.
func (c *conversation) lose() <-chan time.Time {
	stands := standingOf(c.lease.Context())
	c.send(order{Lease: stands})
	if c.job.OnLost != LostKill {
		return nil
	}
	if stands == over && c.group != 0 {
		c.group.signal(syscall.SIGKILL) // as the supervisor has done, unless frozen
	}
	return time.After(c.job.Grace + 2*killPatience)
}

// killGroup kills the group of a supervisor that has died. The command itself
// the kernel has killed then, where it can.
func (c *conversation) killGroup() {
	if c.group == 0 {
		return
	}
	c.group.signal(syscall.SIGKILL)
	for end := time.Now().Add(killPatience); c.group.alive() && time.Now().Before(end); {
		time.Sleep(groupPoll)
	}
}

// stop stops our own group, as the terminal would have done had the command
// been in it, so that the shell hears of it.
func (c *conversation) stop() {
	select {
	case <-c.continued: // of an earlier stop
	default:
	}
	_ = syscall.Kill(0, syscall.SIGTSTP)
}

// confirm asks whether the lease still holds, until there is an answer or the
// lease is over. What is to be done when it is lost the lease's context says.
func (c *conversation) confirm(ctx context.Context) {
	const pause = 100 * time.Millisecond
	c.confirming.Go(func() {
		for c.lease.Confirm(ctx) != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
		select {
		case c.confirmed <- struct{}{}:
		default: // it was confirmed twice, and not yet heard of
		}
	})
}

// resume lets the command go on after a stop, in the foreground if we are.
func (c *conversation) resume() {
	c.tty.lendTo(c.group)
	c.send(order{Deadline: sharedMoment(c.lease.Deadline()), Resume: true})
}

func (c *conversation) takeBack() {
	failed := c.lent && c.group == 0 // it may have been in the foreground first
	c.tty.takeBack(c.group, failed)
}

func standingOf(lease context.Context) standing {
	var why *holdfast.LostError
	if errors.As(context.Cause(lease), &why) && why.Reason == holdfast.LostExpired {
		return over
	}
	return lost
}
