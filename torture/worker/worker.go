// Package worker is one client process of a torture run. It knows no library of
// locks: what it tortures is behind the interface Locker, so that peers are put
// to the same work.
//
// A worker is any program that speaks this protocol. It is started with the one
// argument "worker", and reads one line of standard input: a Settings in JSON.
// Then it acquires, works and releases, in as many goroutines as told, and writes
// to standard output one history.Event a line: calls before they are carried
// out, since it may be killed at any moment. When standard input ends it ends
// what it does, and exits with 0. Main does all this.
package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/resource"
)

// Argument is the first one of a program that is to be a worker.
const Argument = "worker"

// Exit codes.
const (
	exitFailed = 1
	exitUnread = 3
)

// Settings are what a worker is told.
type Settings struct {
	// Process is the name of this incarnation in the history.
	Process string
	// Store is the URL of the store, as package open has it.
	Store string
	// Networks says where to connect to for each address that the servers
	// have among themselves, and tell clients: to a network of the worker's own,
	// which can be broken. Empty where the store's URL has such addresses.
	Networks map[string]string
	// Resource is the path of the resources' socket.
	Resource string
	// Seed makes the choices of the clients; how they come to meet is chance.
	Seed uint64
	// Clients is how many goroutines there are.
	Clients int
	TTL     time.Duration
	// OwnTTL is that of the locks which nobody else wants. A long one shows when
	// such a lock is left taken.
	OwnTTL time.Duration
	// StoreTimeout is how long a call may go on trying a store that is down.
	StoreTimeout time.Duration
	// Names are those that all workers compete for.
	Names Names
}

// Names are what the names of a run are for. A list may be empty.
type Names struct {
	// Locks are acquired in every way and held for a short or a long time.
	Locks []string
	// Delayed are acquired as Locks are, with a lock delay.
	Delayed []string
	// Unfenced are acquired as Locks are, without a fencing token.
	Unfenced []string
	// Queues are waited for by many, held shortly by each, and often given up.
	Queues []string
	// Registers are locks beside resources that are read and written.
	Registers []string
	// Jobs run once per slot. The slots of the first are by the clock that all
	// workers share, those of the others by the server's.
	Jobs []string
}

// Open connects a library to the store of the settings.
type Open func(ctx context.Context, settings Settings) (Locker, error)

// Main is the main function of a worker.
func Main(open Open) {
	if err := run(os.Stdin, os.Stdout, open); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(exitFailed)
	}
}

func run(in io.Reader, out io.Writer, open Open) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("no settings: %w", err)
	}
	var settings Settings
	if err := json.Unmarshal(line, &settings); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	locker, err := open(context.Background(), settings)
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	go func() { // ends with standard input
		_, _ = io.Copy(io.Discard, lines) // whatever ends it, it has ended
		close(stop)
	}()
	err = work(settings, locker, &record{process: settings.Process, to: history.NewWriter(out)}, stop)
	ctx, cancel := context.WithTimeout(context.Background(), settings.StoreTimeout)
	defer cancel()
	// What the store can't be told ends by its TTL.
	_ = locker.Close(ctx)
	return err
}

// work runs the clients until stop is closed.
func work(settings Settings, locker Locker, record *record, stop <-chan struct{}) error {
	var clients []*client
	for n := 1; n <= settings.Clients; n++ {
		resources, err := resource.Dial(settings.Resource)
		if err != nil {
			return fmt.Errorf("resources: %w", err)
		}
		defer resources.Close()
		clients = append(clients, &client{
			Settings: settings, locker: locker, record: record, resources: resources, number: n, stop: stop,
			rand: rand.New(rand.NewPCG(settings.Seed, uint64(n))),
		})
	}
	var running sync.WaitGroup
	for _, c := range clients {
		running.Go(c.run)
	}
	running.Wait()
	return nil
}
