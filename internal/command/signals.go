package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfastlock/holdfast/internal/supervise"
)

// catchSignals returns the signals that end a wait and that are passed on to
// the child. A HUP or INT that we were started to ignore (nohup, a shell's
// background job) stays ignored. They are caught until the program ends: one
// that comes when all is done must not change its exit code.
func catchSignals() <-chan os.Signal {
	const enough = 16 // more at once than a person or a system sends
	caught := make(chan os.Signal, enough)
	for _, sig := range []os.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(caught, sig)
		}
	}
	return caught
}

// orSignal calls wait. When a signal comes first it ends wait's context, and
// the error is the *exit for the signal, whatever wait returned then. Once
// started is closed, signals are left to others; it may be nil.
func orSignal(ctx context.Context, signals <-chan os.Signal, started <-chan struct{}, wait func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = wait(ctx)
	}()
	select {
	case <-done:
		return err
	case <-started:
		<-done
		return err
	case sig := <-signals:
		cancel()
		<-done
		return &exit{code: supervise.SignalCode(sig)}
	}
}
