package goredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfastlock/holdfast/redisstore"
)

// replyOf returns the answer to a command of which the client says err. In a
// pipeline that could not be sent, err is all there is.
func (c conn) replyOf(cmd once, err error) redisstore.Reply {
	switch own := cmd.Err(); {
	case errors.Is(own, redis.Nil):
		return redisstore.Reply{Null: true}
	case own != nil:
		return redisstore.Reply{Err: c.failure(own)}
	case cmd.Val() == nil:
		return redisstore.Reply{Err: c.failure(err)}
	}
	return valueOf(cmd.Val())
}

func valueOf(value any) redisstore.Reply {
	switch value := value.(type) {
	case nil:
		return redisstore.Reply{Null: true}
	case string:
		return redisstore.Reply{Text: value}
	case int64:
		return redisstore.Reply{Int: value}
	case []any:
		list := make([]redisstore.Reply, len(value))
		for i, part := range value {
			list[i] = valueOf(part)
		}
		return redisstore.Reply{List: list}
	case error:
		return redisstore.Reply{Err: clean(value)}
	default:
		return redisstore.Reply{Err: fmt.Errorf("an answer of type %T", value)}
	}
}

// clean turns what the server has said into a ServerError.
func clean(err error) error {
	var answer redis.Error
	if errors.As(err, &answer) {
		return redisstore.ServerError(answer.Error())
	}
	return err
}

// failure is clean for a whole command. Where a server of a cluster gave no
// answer, or another has the slot, the client is told to look who has which: by
// itself it does not where it may not send a command again.
func (c conn) failure(err error) error {
	err = clean(err)
	var answer redisstore.ServerError
	if err != nil && c.cluster != nil && (movedTo(err) != "" || !errors.As(err, &answer)) {
		c.cluster.ReloadState(context.Background())
	}
	return err
}

// movedTo returns where the slot is, if the server says that it has not got it.
func movedTo(err error) (address string) {
	var answer redisstore.ServerError
	if errors.As(err, &answer) && strings.HasPrefix(string(answer), "MOVED ") {
		address = string(answer[strings.LastIndexByte(string(answer), ' ')+1:])
	}
	return address
}

// wait sends WAIT or WAITAOF, whose answer comes when their last word, a time in
// milliseconds, is over, if not before. The client must not give up sooner.
func (c conn) wait(ctx context.Context, words []string) redisstore.Reply {
	numbers := make([]int, len(words)-1)
	for i := range numbers {
		n, err := strconv.Atoi(words[i+1])
		if err != nil {
			return redisstore.Reply{Err: err}
		}
		numbers[i] = n
	}
	timeout := time.Duration(numbers[len(numbers)-1]) * time.Millisecond
	if words[0] == "WAIT" {
		n, err := c.Wait(ctx, numbers[0], timeout).Result()
		return redisstore.Reply{Int: n, Err: c.failure(err)}
	}
	counts, err := c.WaitAOF(ctx, numbers[0], numbers[1], timeout).Result()
	reply := redisstore.Reply{Err: c.failure(err), List: make([]redisstore.Reply, len(counts))}
	for i, n := range counts {
		reply.List[i].Int = n
	}
	return reply
}
