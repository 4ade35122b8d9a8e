package redisstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// slowScan is a server without locks whose steps of a SCAN take a while.
type slowScan struct {
	Conn
	takes        time.Duration
	began, ended []time.Time
}

func (s *slowScan) Nodes(context.Context) ([]Conn, error) { return []Conn{s}, nil }
func (s *slowScan) Cluster() bool                         { return false }

func (s *slowScan) Do(_ context.Context, asked Command) Reply {
	if asked.Words[0] != "SCAN" {
		return Reply{}
	}
	s.began = append(s.began, time.Now())
	time.Sleep(s.takes)
	s.ended = append(s.ended, time.Now())
	const steps = 4
	next := "0"
	if len(s.began)%steps != 0 {
		next = "7"
	}
	return Reply{List: []Reply{{Text: next}, {List: []Reply{}}}}
}

func TestAListingPausesAsLongAsItsStepTook(t *testing.T) {
	for _, takes := range []time.Duration{3 * time.Millisecond, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			server := &slowScan{takes: takes}
			store, err := New(Options{Conn: server})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			for _, err := range store.List(t.Context(), "*") {
				t.Error(err)
			}
			for i := range server.began[1:] {
				if pause := server.began[i+1].Sub(server.ended[i]); pause != min(takes, longestRest) {
					t.Errorf("a pause of %v after a step of %v", pause, takes)
				}
			}
			if len(server.began) != 4 {
				t.Errorf("steps at %v, want four", server.began)
			}
		})
	}
}
