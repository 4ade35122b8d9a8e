package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// Conn is what a Store asks of a client of Redis. Rueidis makes one of a
// rueidis client, contrib/goredis one of a go-redis client. It is used by many
// goroutines at once, and stays the caller's: the Store does not close it.
//
// A call must end by itself, in about a second if the server does not answer: the
// Store gives it contexts that do not end, and leaves it behind when its own
// caller goes. It must not send a command twice.
type Conn interface {
	// Do sends a command and returns its answer.
	Do(ctx context.Context, command Command) Reply
	// DoMany sends the commands together and returns their answers in the same
	// order. In a cluster they may go to several servers.
	DoMany(ctx context.Context, commands []Command) []Reply
	// Apart runs fn with a connection that no other call uses meanwhile, to the
	// server that has the key. When ctx ends the connection is closed, or what is
	// under way on it ends as any other call. A connection that owes an answer is
	// never used again; fn leaves it without a MULTI or WATCH.
	Apart(ctx context.Context, key string, fn func(Conn) error) error
	// Listen subscribes to a channel, sharded (SSUBSCRIBE) or not, calls joined
	// each time that the server has confirmed it, again after every interruption
	// that the client mends by itself, and heard with each message, one at a
	// time. It returns when ctx ends, the subscription is lost, or the server has
	// ended it, and has then unsubscribed if that could be done at once.
	Listen(ctx context.Context, channel string, sharded bool, joined func(), heard func(message string)) error
	// Nodes returns a Conn to each server, at least to all primaries of a cluster.
	Nodes(ctx context.Context) ([]Conn, error)
	// Cluster says whether it is a client of Redis Cluster.
	Cluster() bool
}

// Command is a command of Redis.
type Command struct {
	// Words are its name and arguments.
	Words []string
	// FirstKey says which of the words is the first key, whose slot says which
	// server of a cluster is meant; 0 if it has no key.
	FirstKey int
}

// command is a command of which that word is the first key.
func command(firstKey int, words ...string) Command { return Command{Words: words, FirstKey: firstKey} }

// Reply is what a server answers to a command. One of its fields is set, if not
// the answer is an empty text, 0 or an empty list.
type Reply struct {
	// Text is a string, whether simple, bulk or verbatim.
	Text string
	// Int is an integer.
	Int int64
	// List is an array; not nil if it is empty.
	List []Reply
	// Null is the answer nil.
	Null bool
	// Err is why there is no answer, or a ServerError.
	Err error
}

// ServerError is an error that the server has answered: its text, such as
// "OOM command not allowed …".
type ServerError string

// Error implements error.
func (e ServerError) Error() string { return string(e) }

// said returns what the server has said, if that is the error.
func said(err error) (text string, yes bool) {
	if err == nil { // mostly
		return "", false
	}
	var answer ServerError
	yes = errors.As(err, &answer)
	return string(answer), yes
}

// texts reads an answer that is an array of strings.
func (r Reply) texts() ([]string, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	texts := make([]string, len(r.List))
	for i, part := range r.List {
		texts[i] = part.Text
	}
	return texts, nil
}

// list reads an answer that is an array of at least that many parts.
func (r Reply) list(least int) ([]Reply, error) {
	if r.Err == nil && len(r.List) < least {
		return nil, fmt.Errorf("an answer of %d parts instead of %d", len(r.List), least)
	}
	return r.List, r.Err
}

// number reads an integer, also where it is written as a string.
func (r Reply) number() (int64, error) {
	switch {
	case r.Err != nil:
		return 0, r.Err
	case r.Text == "" && r.List == nil && !r.Null:
		return r.Int, nil
	default:
		return strconv.ParseInt(r.Text, 10, 64)
	}
}

// numbers reads an array of that many integers.
func (r Reply) numbers(count int) ([]int64, error) {
	parts, err := r.list(count)
	numbers := make([]int64, len(parts))
	for i := range parts {
		if err == nil {
			numbers[i], err = parts[i].number()
		}
	}
	return numbers, err
}
