package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed" // the scripts
	"encoding/hex"
	"strconv"
	"strings"
)

var (
	//go:embed scripts/grant.lua
	grantText string
	//go:embed scripts/handon.lua
	handOnText string
	//go:embed scripts/acquire.lua
	acquireText string
	//go:embed scripts/enqueue.lua
	enqueueText string
	//go:embed scripts/extend.lua
	extendText string
	//go:embed scripts/release.lua
	releaseText string
	//go:embed scripts/inspect.lua
	inspectText string
	//go:embed scripts/slot.lua
	slotText string
	//go:embed scripts/begin.lua
	beginText string
	//go:embed scripts/finish.lua
	finishText string
	//go:embed scripts/raise.lua
	raiseText string

	acquireScript = newScript(grantText + acquireText)
	enqueueScript = newScript(grantText + handOnText + enqueueText)
	extendScript  = newScript(extendText)
	releaseScript = newScript(handOnText + releaseText)
	inspectScript = newScript(inspectText)
	slotScript    = newScript(slotText)
	beginScript   = newScript(beginText)
	finishScript  = newScript(finishText)
	raiseScript   = newScript(raiseText)
)

// script is a Lua script and the name under which a server remembers it.
type script struct {
	text, sha string
}

func newScript(text string) script {
	sum := sha1.Sum([]byte(text))
	return script{text: text, sha: hex.EncodeToString(sum[:])}
}

// run is one run of a script, with its keys and arguments.
type run struct {
	keys, args []string
}

// call runs a script once. The error is errNoScripts where that is not allowed.
func call(ctx context.Context, conn Conn, s script, r run) Reply {
	reply := conn.Do(ctx, r.of("EVALSHA", s.sha))
	if noScript(reply) {
		reply = conn.Do(ctx, r.of("EVAL", s.text))
	}
	return scripted(reply)
}

// callMany sends all runs at once. The answers are in their order.
func callMany(ctx context.Context, conn Conn, s script, runs []run) []Reply {
	commands := make([]Command, len(runs))
	for i, r := range runs {
		commands[i] = r.of("EVALSHA", s.sha)
	}
	replies := conn.DoMany(ctx, commands)

	var missed []int
	commands = commands[:0]
	for i, reply := range replies {
		if noScript(reply) {
			missed = append(missed, i)
			commands = append(commands, runs[i].of("EVAL", s.text))
		}
	}
	if len(missed) > 0 {
		for i, reply := range conn.DoMany(ctx, commands) {
			replies[missed[i]] = reply
		}
	}
	for i := range replies {
		replies[i] = scripted(replies[i])
	}
	return replies
}

// of returns the command that runs the script of that text or SHA1.
func (r run) of(verb, script string) Command {
	words := make([]string, 0, 3+len(r.keys)+len(r.args))
	words = append(words, verb, script, strconv.Itoa(len(r.keys)))
	return Command{Words: append(append(words, r.keys...), r.args...), FirstKey: 3}
}

// noScript says that the server does not know the script, or no longer does:
// it forgets by SCRIPT FLUSH, restart and failover.
func noScript(reply Reply) bool {
	text, yes := said(reply.Err)
	return yes && strings.HasPrefix(text, "NOSCRIPT")
}
