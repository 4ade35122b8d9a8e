// Command bench measures holdfast on a Redis server of its own, beside other
// libraries and the bare client, and prints tables for docs/performance.md. Run
// it in its folder: go run .
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if os.Getenv(workerVariable) != "" {
		// A signal to the group stops the program, which stops its workers.
		signal.Ignore(os.Interrupt)
		exit(worker(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	p, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, p)
	}
	stop()
	exit(err)
}

func exit(err error) {
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run starts the server, measures, and prints.
func run(ctx context.Context, p plan) (err error) {
	s, err := startServer(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	stopProfiles, err := startProfiles(p)
	if err != nil {
		return err
	}
	r := report{Machine: s.machine(), plan: p}
	if err := r.measure(ctx, s); err != nil {
		return err
	}
	if err := stopProfiles(); err != nil {
		return err
	}
	if err := r.print(os.Stdout); err != nil {
		return err
	}
	return r.sound()
}

func (r *report) measure(ctx context.Context, s *server) (err error) {
	p := r.plan
	if p.wants("commands") {
		if r.Commands, err = measureCommands(ctx, s); err != nil {
			return err
		}
	}
	if p.wants("own") {
		if r.Own, err = measureOwn(ctx, s, p, p.onOneServer(), p.goroutinesOr(1, 64, 1024)); err != nil {
			return err
		}
	}
	for _, c := range p.contests() {
		results, err := measureContended(ctx, s, p, c)
		if err != nil {
			return err
		}
		r.Contended = append(r.Contended, results...)
	}
	if p.wants("keepalive") {
		if r.Keepalive, err = measureKeepalive(ctx, s, p); err != nil {
			return err
		}
	}
	if p.wants("limit") {
		if r.Limit, err = measureLimit(ctx, s); err != nil {
			return err
		}
	}
	if p.wants("clients") {
		if r.Clients, err = measureOwn(ctx, s, p, onClients, p.goroutinesOr(1, 64)); err != nil {
			return err
		}
	}
	if p.wants("quorum") {
		return r.measureQuorum(ctx, p)
	}
	return nil
}
