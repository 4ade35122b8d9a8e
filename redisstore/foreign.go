package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

const (
	// valueLooked is how much of a string is looked at: a token is shorter.
	valueLooked = 256
	// fieldsLooked is how many fields of a hash are looked at.
	fieldsLooked = 8
)

// foreignRights is said when the ACL refuses a listing of the whole server.
const foreignRights = "to look at other programs' keys the ACL user needs ~* (or, from Redis 7.0, %R~*) and " +
	"+scan +type +getrange +hrandfield +hlen +zrange +zcard +zscore +pttl +dbsize; or give a pattern within the keys that it may read"

// ListForeign implements driver.ForeignLister. It asks for the beginning of each
// string and the names of some fields of each hash: a large value costs no more
// than a small one.
func (s *Store) ListForeign(ctx context.Context, pattern string) iter.Seq2[driver.ForeignLock, error] {
	return func(yield func(driver.ForeignLock, error) bool) {
		l := foreignListing{store: s, pattern: pattern, seen: make(map[string]bool), yield: yield}
		if err := l.run(ctx); err != nil {
			yield(driver.ForeignLock{}, rightsFor(err))
		}
	}
}

// rightsFor says what is needed if an ACL has refused it.
func rightsFor(err error) error {
	var refused *driver.Error
	if errors.As(err, &refused) && refused.Hint == faults["NOPERM"].hint {
		return &driver.Error{Kind: refused.Kind, Hint: foreignRights, Err: refused.Err}
	}
	return err
}

// foreignListing is one ListForeign under way.
type foreignListing struct {
	store   *Store
	pattern string
	exact   bool            // the pattern is a key or a name
	seen    map[string]bool // SCAN repeats itself: the locks found so far
	yield   func(driver.ForeignLock, error) bool
}

func (l *foreignListing) run(ctx context.Context) error {
	if l.exact = !strings.ContainsAny(l.pattern, "*?"); l.exact {
		return l.one(ctx, []string{l.pattern, l.store.prefix + l.pattern})
	}
	var failed error
	err := l.store.walk(ctx, scanPattern("", l.pattern), lockTypes, func(kind string, found []string) (goOn bool) {
		goOn, failed = l.look(ctx, kind, found)
		return goOn
	})
	return cmp.Or(err, failed)
}

// one looks at the keys that an exact name can mean.
func (l *foreignListing) one(ctx context.Context, keys []string) error {
	var commands []Command
	for _, key := range keys {
		commands = append(commands, command(1, "TYPE", key))
	}
	types, err := l.store.many(ctx, commands)
	goOn := err == nil
	for i := 0; i < len(keys) && goOn; i++ {
		goOn, err = l.look(ctx, types[i].Text, keys[i:i+1])
	}
	return err
}

// suspect is a key that looks like a lock.
type suspect struct {
	specimen
	guess
}

// look yields the locks among keys of a type and says whether the listing goes on.
func (l *foreignListing) look(ctx context.Context, kind string, found []string) (goOn bool, err error) {
	suspects, err := l.suspects(ctx, kind, l.chosen(found))
	if err != nil {
		return false, err
	}
	locks, err := l.details(ctx, suspects)
	if err != nil {
		return false, err
	}
	for _, lock := range locks {
		if l.seen[lock.Key] {
			continue
		}
		l.seen[lock.Key] = true
		if !l.yield(lock, nil) {
			return false, nil
		}
	}
	return true, nil
}

// chosen leaves out what was shown before, our companions, and what only SCAN's
// patterns let through.
func (l *foreignListing) chosen(found []string) []string {
	var keys []string
	for _, key := range found {
		if !l.seen[key] && !strings.HasPrefix(key, l.store.prefix+ownMark) && (l.exact || driver.Match(l.pattern, key)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// suspects returns those of the keys that look like locks.
func (l *foreignListing) suspects(ctx context.Context, kind string, keys []string) ([]suspect, error) {
	var commands []Command
	for _, key := range keys {
		if look, worth := content(kind, key); worth {
			commands = append(commands, look)
		}
	}
	contents, err := l.store.many(ctx, commands)
	if err != nil {
		return nil, err
	}
	var suspects []suspect
	for i, content := range contents {
		x := specimen{key: commands[i].Words[1], chosen: strings.IndexAny(l.pattern, "*?") > 0}
		x.named = l.named(x.key)
		if !x.read(kind, content) {
			continue
		}
		if g, is := recognise(x); is {
			suspects = append(suspects, suspect{x, g})
		}
	}
	return suspects, nil
}

// named says why a string under the key is taken for a lock, whatever it is.
func (l *foreignListing) named(key string) string {
	switch {
	case strings.HasPrefix(key, l.store.prefix):
		return "its key begins with " + l.store.prefix
	case l.exact:
		return "you have named it"
	case namedLikeALock(key):
		return "its key is named like a lock"
	default:
		return ""
	}
}

// lockTypes are the types of keys that can be locks.
var lockTypes = []string{"string", "hash", "zset"}

// content is the command that looks into a key of a type, if that can be a lock.
func content(kind, key string) (look Command, worth bool) {
	switch kind {
	case "string":
		return command(1, "GETRANGE", key, "0", decimal(valueLooked-1)), true
	case "hash":
		return command(1, "HRANDFIELD", key, decimal(fieldsLooked)), true
	case "zset":
		// The permit that ends last.
		return command(1, "ZRANGE", key, "-1", "-1"), strings.HasSuffix(key, permits)
	default:
		return Command{}, false
	}
}

// read takes the content in, and says whether there is one: the key may have gone.
func (x *specimen) read(kind string, content Reply) bool {
	list, _ := content.texts()
	switch {
	case kind == "string":
		x.value = content.Text
		return x.value != ""
	case len(list) == 0:
		return false
	case kind == "zset":
		x.member = list[0]
	default:
		x.fields = list
	}
	return true
}

// details asks what else is shown of the locks.
func (l *foreignListing) details(ctx context.Context, suspects []suspect) ([]driver.ForeignLock, error) {
	var commands []Command
	for _, x := range suspects {
		commands = append(commands, command(1, "PTTL", x.key))
		switch {
		case x.fields != nil:
			commands = append(commands, command(1, "HLEN", x.key))
		case x.member != "":
			commands = append(commands, command(1, "ZCARD", x.key), command(1, "ZSCORE", x.key, x.member))
		}
	}
	answers, err := l.store.many(ctx, commands)
	if err != nil {
		return nil, err
	}
	var locks []driver.ForeignLock
	for _, x := range suspects {
		var lock driver.ForeignLock
		lock, answers = x.lock(answers)
		const noKey = -2 * time.Millisecond // PTTL's answer
		if lock.Left != noKey && (lock.Left >= 0 || !x.expires) {
			locks = append(locks, lock)
		}
	}
	return locks, nil
}

// lock reads the answers about the suspect and returns the others.
func (x suspect) lock(answers []Reply) (driver.ForeignLock, []Reply) {
	lock := driver.ForeignLock{Key: x.key, Library: x.library, Kind: x.kind, Basis: x.basis, Holder: x.holder}
	lock.Left = time.Duration(answers[0].Int) * time.Millisecond
	switch {
	case x.fields != nil:
		const modeAndHolder = 2
		if more := answers[1].Int - modeAndHolder; more > 0 {
			lock.Holder += fmt.Sprintf(" and %d more", more)
		}
		return lock, answers[2:]
	case x.member != "":
		lock.Holder = fmt.Sprintf("%d permits", answers[1].Int)
		if lock.Left < 0 {
			lock.Left = leftOfPermit(answers[2].Text)
		}
		return lock, answers[3:]
	default:
		return lock, answers[1:]
	}
}

// leftOfPermit is how long the permit still lasts that ends last, by the clock of
// the client that took it and ours; one without an end has it in the year 31197.
func leftOfPermit(score string) time.Duration {
	const far = 1e14
	ends, err := strconv.ParseFloat(score, 64)
	if err != nil || ends > far {
		return -1
	}
	return max(0, time.Until(time.UnixMilli(int64(ends))))
}

// many sends commands about keys, which need not be in one slot. A key that is
// no longer of the type that it was is no error.
func (s *Store) many(ctx context.Context, commands []Command) ([]Reply, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	return ask(ctx, s.connection, func(ctx context.Context, conn Conn) ([]Reply, error) {
		replies := conn.DoMany(ctx, commands)
		for _, reply := range replies {
			if text, yes := said(reply.Err); yes && faultOf(text) == faults["WRONGTYPE"] {
				continue
			}
			if reply.Err != nil {
				return nil, reply.Err
			}
		}
		return replies, nil
	})
}
