// Package resource is what the workers of a torture run use under a lock: sets
// that are kept in the harness, where a write replaces the whole set, as with a
// file. Beside each that checks fencing tokens is one that does not.
package resource

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/torture/history"
)

// Guarded and Unguarded begin the names of resources that do and do not check
// fencing tokens.
const (
	Guarded   = "guarded/"
	Unguarded = "unguarded/"
)

// Server serves resources over a unix socket. A resource exists, as an empty set,
// from when it is first named. Only its version is kept: a write says on which
// version it is based, and from that follows what each version contains.
type Server struct {
	listener net.Listener
	record   func(history.Event)
	running  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	conns    map[net.Conn]struct{}
	versions map[string]int64
	fences   fence.Memory
}

// Listen serves resources on a socket of that path. Record is told what was
// decided of each touch and write, one at a time and in this order.
func Listen(path string, record func(history.Event)) (*Server, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	s := &Server{
		listener: listener, record: record, conns: make(map[net.Conn]struct{}),
		versions: make(map[string]int64),
	}
	s.running.Go(s.accept)
	return s, nil
}

// Close ends the server and its connections, and returns when its goroutines
// have ended.
func (s *Server) Close() {
	_ = s.listener.Close() // an error means that it is closed
	s.mu.Lock()
	s.closed = true
	for conn := range s.conns {
		_ = conn.Close() // likewise
	}
	s.mu.Unlock()
	s.running.Wait()
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			_ = conn.Close() // nobody is served any more
		} else {
			s.conns[conn] = struct{}{}
			s.running.Go(func() { s.serve(conn) })
		}
		s.mu.Unlock()
	}
}

// serve answers each request, which is the Call that the client recorded, by
// the fields of its Return.
func (s *Server) serve(conn net.Conn) {
	defer func() {
		defer conn.Close()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	}()
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var request history.Event
		if in.Decode(&request) != nil || out.Encode(s.do(request)) != nil {
			return
		}
	}
}

// do carries out one request in one step.
func (s *Server) do(request history.Event) history.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	if request.Do == history.Read {
		return history.Event{Outcome: history.OK, Version: s.versions[request.Name]}
	}
	decision := request
	decision.At, decision.Kind = history.Now(), history.Accepted
	decision.Guarded = strings.HasPrefix(request.Name, Guarded)
	change := func(context.Context) error {
		if request.Do == history.Write {
			s.versions[request.Name]++
		}
		decision.Version = s.versions[request.Name]
		return nil
	}
	var refused error
	if decision.Guarded {
		owner := fmt.Sprintf("%s/%d", request.Process, request.Lease)
		refused = s.fences.Do(context.Background(), request.Name, owner, request.Fence, change)
	} else {
		_ = change(context.Background()) // never fails
	}
	answer := history.Event{Outcome: history.OK, Version: decision.Version}
	if refused != nil {
		decision.Kind, decision.Note = history.Stale, refused.Error()
		answer = history.Event{Outcome: history.StaleFence, Note: decision.Note}
	}
	s.record(decision)
	return answer
}
