package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// forwarder is a network with a delay: it passes requests to the server at once
// and replies to the client after lag. It counts what passes.
type forwarder struct {
	target   string
	lag      time.Duration
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	sent  counts
	turns int
	words []string // of the last command
	// asked says that requests have passed since the last reply did.
	asked bool
}

func newForwarder(target string, lag time.Duration) (*forwarder, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &forwarder{target: target, lag: lag, listener: listener, sent: counts{}}
	f.running.Go(f.accept)
	return f, nil
}

func (f *forwarder) addr() string { return f.listener.Addr().String() }

func (f *forwarder) accept() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", f.target)
		if err != nil {
			client.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, client, server)
		f.mu.Unlock()
		f.running.Go(func() { defer server.Close(); f.requests(client, server) })
		f.running.Go(func() { defer client.Close(); f.replies(server, client) })
	}
}

func (f *forwarder) close() {
	f.listener.Close()
	f.mu.Lock()
	for _, conn := range f.conns {
		conn.Close()
	}
	f.mu.Unlock()
	f.running.Wait()
}

// reset begins to count from 0.
func (f *forwarder) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent, f.turns, f.words, f.asked = counts{}, 0, nil, false
}

// last returns the words of the command that passed last since reset.
func (f *forwarder) last() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.words
}

// counted returns the commands sent and the round trips since reset. Requests
// sent before the reply to the first of them is one round trip.
func (f *forwarder) counted() (counts, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.sent), f.turns
}

// requests passes commands, one after the other.
func (f *forwarder) requests(client io.Reader, server io.Writer) {
	in := bufio.NewReader(client)
	for {
		command, words, err := readCommand(in)
		if err != nil || len(words) == 0 {
			return
		}
		if name := strings.ToLower(words[0]); name != "ping" { // the client's own, when it has nothing to do
			f.mu.Lock()
			f.sent[name]++
			f.words = words
			if !f.asked {
				f.turns++
			}
			f.asked = true
			f.mu.Unlock()
		}
		if _, err := server.Write(command); err != nil {
			return
		}
	}
}

// chunk is what the server said at one time, and when the client may hear it.
type chunk struct {
	text []byte
	due  time.Time
}

// replies passes what the server says, each piece lag later: what came together
// arrives together.
func (f *forwarder) replies(server io.Reader, client io.Writer) {
	pieces := make(chan chunk, 1024)
	defer close(pieces)
	f.running.Go(func() { f.deliver(pieces, client) })
	for {
		buf := make([]byte, 64<<10)
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		pieces <- chunk{buf[:n], time.Now().Add(f.lag)}
	}
}

// deliver goes on reading when the client has gone, so that nobody is stuck.
func (f *forwarder) deliver(pieces <-chan chunk, client io.Writer) {
	for piece := range pieces {
		time.Sleep(time.Until(piece.due))
		f.mu.Lock()
		f.asked = false
		f.mu.Unlock()
		_, _ = client.Write(piece.text)
	}
}

// readCommand reads one command, an array of bulk strings, and returns its
// bytes and its words.
func readCommand(in *bufio.Reader) (command []byte, words []string, err error) {
	var all bytes.Buffer
	n, err := readLength(in, &all, '*')
	for i := 0; i < n && err == nil; i++ {
		var size int
		if size, err = readLength(in, &all, '$'); err != nil {
			break
		}
		begin := all.Len()
		if _, err = io.CopyN(&all, in, int64(size)+2); err == nil {
			words = append(words, string(all.Bytes()[begin:begin+size]))
		}
	}
	return all.Bytes(), words, err
}

// readLength reads a line that is the mark and a number, and copies it.
func readLength(in *bufio.Reader, all *bytes.Buffer, mark byte) (int, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	all.Write(line)
	if len(line) < 4 || line[0] != mark {
		return 0, fmt.Errorf("not a command: %q", line)
	}
	return strconv.Atoi(string(line[1 : len(line)-2]))
}
