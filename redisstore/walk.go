package redisstore

import (
	"context"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

const (
	// scanCount is how many keys the server looks at in one step of a walk.
	scanCount = 500
	// longestRest is the longest pause between two steps.
	longestRest = 100 * time.Millisecond
)

// walk hands the keys that match, of each kind in turn, to page, until that says
// no: those of the server, or of every node of a cluster. Pattern and kinds are
// SCAN's. It takes a step at a time, and pauses after each for as long as it took,
// longestRest at the most: about half of the server's time is left to others.
func (s *Store) walk(ctx context.Context, match string, kinds []string, page func(kind string, keys []string) (goOn bool)) error {
	nodes, err := ask(ctx, s.connection, func(ctx context.Context, conn Conn) ([]Conn, error) {
		return conn.Nodes(ctx)
	})
	if err != nil {
		return err
	}
	step := s.progress(ctx, nodes, len(kinds))
	for _, kind := range kinds {
		for _, node := range nodes {
			for cursor := "0"; ; {
				began := time.Now()
				var found []string
				if cursor, found, err = s.scan(ctx, node, cursor, match, kind); err != nil {
					return err
				}
				if !page(kind, found) {
					return nil
				}
				step()
				if cursor == "0" {
					break
				}
				rest(ctx, time.Since(began))
			}
		}
	}
	return nil
}

// scan is one step.
func (s *Store) scan(ctx context.Context, node Conn, cursor, match, kind string) (next string, found []string, err error) {
	answer, err := ask(ctx, s.connection, func(ctx context.Context, _ Conn) ([]Reply, error) {
		return node.Do(ctx, command(0, "SCAN", cursor, "MATCH", match, "COUNT", decimal(scanCount), "TYPE", kind)).list(2)
	})
	if err != nil {
		return "", nil, err
	}
	found, err = answer[1].texts()
	return answer[0].Text, found, err
}

// progress returns what tells the progress of a walk after each step, if that is
// wanted. A key counts when it has been looked at for every kind.
func (s *Store) progress(ctx context.Context, nodes []Conn, kinds int) (step func()) {
	tell := driver.Progress(ctx)
	if tell == nil {
		return func() {}
	}
	var looked, of int64
	for _, node := range nodes {
		size, err := ask(ctx, s.connection, func(ctx context.Context, _ Conn) (int64, error) {
			return node.Do(ctx, command(0, "DBSIZE")).number()
		})
		if err != nil { // as without the right to DBSIZE
			of = 0
			break
		}
		of += size
	}
	return func() {
		looked += scanCount
		keys := looked / int64(kinds)
		if of > 0 {
			keys = min(keys, of)
		}
		tell(keys, of)
	}
}

// rest pauses, unless the context ends.
func rest(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(min(pause, longestRest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
