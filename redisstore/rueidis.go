package redisstore

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// unsubscribeWithin bounds how long the end of a subscription waits for a server
// that does not answer. The request stays on its way.
const unsubscribeWithin = 100 * time.Millisecond

// Rueidis returns a Conn over a rueidis client of the caller's. Its option
// DisableRetry should be set, as with it nothing is sent twice; ConnWriteTimeout
// and Dialer.KeepAlive, 10 s and 1 s by default, bound how long a lost server
// goes unnoticed, and should be well below the TTL.
func Rueidis(client rueidis.Client) Conn { return rueidisConn{client, client} }

// sender is what a client and a connection of its own have in common.
type sender interface {
	B() rueidis.Builder
	Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult
	DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult
}

// rueidisConn is a Conn whose commands go by sender: the client, or one of the
// client's connections.
type rueidisConn struct {
	sender
	client rueidis.Client
}

// built makes a command of the client's. Only the first key is told to it: it
// panics where keys are in different slots, the server answers CROSSSLOT.
func (c rueidisConn) built(command Command) rueidis.Completed {
	words := command.Words
	arbitrary := c.B().Arbitrary(words[0])
	if key := command.FirstKey; key > 0 {
		arbitrary = arbitrary.Args(words[1:key]...).Keys(words[key]).Args(words[key+1:]...)
	} else {
		arbitrary = arbitrary.Args(words[1:]...)
	}
	if words[0] == "WAIT" || words[0] == "WAITAOF" { // longer than ConnWriteTimeout, maybe
		return arbitrary.Blocking()
	}
	return arbitrary.Build()
}

// Do implements Conn.
func (c rueidisConn) Do(ctx context.Context, command Command) Reply {
	return replyOf(c.sender.Do(ctx, c.built(command)))
}

// DoMany implements Conn.
func (c rueidisConn) DoMany(ctx context.Context, commands []Command) []Reply {
	built := make(rueidis.Commands, len(commands))
	for i, command := range commands {
		built[i] = c.built(command)
	}
	replies := make([]Reply, len(commands))
	for i, result := range c.DoMulti(ctx, built...) {
		replies[i] = replyOf(result)
	}
	return replies
}

func replyOf(result rueidis.RedisResult) Reply {
	message, err := result.ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		return Reply{Err: clean(err)}
	}
	return messageOf(message)
}

// clean turns what the server has said into a ServerError.
func clean(err error) error {
	if err == nil {
		return nil
	}
	var answer *rueidis.RedisError
	if errors.As(err, &answer) {
		return ServerError(answer.Error())
	}
	return err
}

func messageOf(message rueidis.RedisMessage) (reply Reply) {
	switch {
	case message.IsNil():
		reply.Null = true
	case message.IsInt64():
		reply.Int, reply.Err = message.ToInt64()
	case message.IsArray():
		parts, _ := message.ToArray()
		reply.List = make([]Reply, len(parts))
		for i, part := range parts {
			reply.List[i] = messageOf(part)
		}
	default:
		reply.Text, reply.Err = message.ToString()
		reply.Err = clean(reply.Err)
	}
	return reply
}

// Apart implements Conn. On a connection of its own the client does not follow
// MOVED: fn, which has done nothing then, is run again on the right server.
func (c rueidisConn) Apart(ctx context.Context, _ string, fn func(Conn) error) error {
	err := c.apart(ctx, c.client, fn)
	if text, _ := said(err); strings.HasPrefix(text, "MOVED ") {
		if node := c.client.Nodes()[text[strings.LastIndexByte(text, ' ')+1:]]; node != nil {
			return c.apart(ctx, node, fn)
		}
	}
	return err
}

func (c rueidisConn) apart(ctx context.Context, client rueidis.Client, fn func(Conn) error) error {
	return client.Dedicated(func(own rueidis.DedicatedClient) error {
		defer context.AfterFunc(ctx, own.Close)()
		return fn(rueidisConn{dedicated{own}, c.client})
	})
}

// dedicated is a connection that no other call uses. One that owes an answer is
// not given to the next call.
type dedicated struct{ rueidis.DedicatedClient }

func (d dedicated) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	result := d.DedicatedClient.Do(ctx, command)
	if result.NonRedisError() != nil {
		d.Close()
	}
	return result
}

func (d dedicated) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	results := d.DedicatedClient.DoMulti(ctx, commands...)
	for _, result := range results {
		if result.NonRedisError() != nil {
			d.Close()
			break
		}
	}
	return results
}

// Listen implements Conn.
func (c rueidisConn) Listen(ctx context.Context, channel string, sharded bool, joined func(), heard func(string)) error {
	ctx, moved := context.WithCancel(ctx)
	defer moved()
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(now rueidis.PubSubSubscription) {
		switch now.Kind {
		case "subscribe", "ssubscribe":
			joined()
		case "sunsubscribe": // by the server: the slot goes to another node
			moved()
		}
	})
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, same rueidis.CommandClient) error {
		// Receive itself does not unsubscribe.
		brief, cancel := context.WithTimeout(context.Background(), unsubscribeWithin)
		defer cancel()
		same.Do(brief, unsubscribe(same.B(), channel, sharded))
		return err
	})
	return clean(c.client.Receive(hooked, subscribe(c.client.B(), channel, sharded), func(message rueidis.PubSubMessage) {
		heard(message.Message)
	}))
}

func subscribe(b rueidis.Builder, channel string, sharded bool) rueidis.Completed {
	if sharded {
		return b.Ssubscribe().Channel(channel).Build()
	}
	return b.Subscribe().Channel(channel).Build()
}

func unsubscribe(b rueidis.Builder, channel string, sharded bool) rueidis.Completed {
	if sharded {
		return b.Sunsubscribe().Channel(channel).Build()
	}
	return b.Unsubscribe().Channel(channel).Build()
}

// Nodes implements Conn. A replica of a cluster is left out, unless the client
// has not heard yet of what its servers say.
func (c rueidisConn) Nodes(ctx context.Context) ([]Conn, error) {
	known := c.client.Nodes()
	wanted := slices.Collect(maps.Keys(known))
	if c.Cluster() {
		primaries, err := primariesOf(ctx, known)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(primaries, func(address string) bool { return known[address] == nil }) {
			wanted = primaries
		}
	}
	nodes := make([]Conn, len(wanted))
	for i, address := range wanted {
		nodes[i] = Rueidis(known[address])
	}
	return nodes, nil
}

// primariesOf asks one node of a cluster after the other for the addresses of
// those that have slots.
func primariesOf(ctx context.Context, known map[string]rueidis.Client) (primaries []string, err error) {
	for asked, client := range known {
		var ranges []Reply
		if ranges, err = Rueidis(client).Do(ctx, command(0, "CLUSTER", "SLOTS")).list(1); err != nil {
			continue
		}
		for _, slots := range ranges { // first, last, primary, replicas
			if len(slots.List) < 3 || len(slots.List[2].List) < 2 {
				return nil, errors.New("CLUSTER SLOTS: an unknown form")
			}
			host, port := slots.List[2].List[0].Text, slots.List[2].List[1].Int
			if host == "" { // that of the node itself
				host, _, _ = net.SplitHostPort(asked)
			}
			primaries = append(primaries, net.JoinHostPort(host, strconv.FormatInt(port, 10)))
		}
		slices.Sort(primaries)
		return slices.Compact(primaries), nil
	}
	return nil, err
}

// Cluster implements Conn.
func (c rueidisConn) Cluster() bool { return c.client.Mode() == rueidis.ClientModeCluster }
