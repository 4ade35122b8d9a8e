package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed" // the scripts
	"encoding/hex"

	"github.com/redis/rueidis"
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

	acquireScript = newScript(grantText + acquireText)
	enqueueScript = newScript(grantText + handOnText + enqueueText)
	extendScript  = newScript(extendText)
	releaseScript = newScript(handOnText + releaseText)
	inspectScript = newScript(inspectText)
	slotScript    = newScript(slotText)
	beginScript   = newScript(beginText)
	finishScript  = newScript(finishText)
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

// call runs a script once.
func call(ctx context.Context, client rueidis.Client, s script, r run) rueidis.RedisResult {
	result := client.Do(ctx, s.bySHA(client, r))
	if noScript(result) {
		result = client.Do(ctx, s.byText(client, r))
	}
	return result
}

// callMany sends all runs at once. The results are in their order.
func callMany(ctx context.Context, client rueidis.Client, s script, runs []run) []rueidis.RedisResult {
	commands := make(rueidis.Commands, len(runs))
	for i, r := range runs {
		commands[i] = s.bySHA(client, r)
	}
	results := client.DoMulti(ctx, commands...)

	var missed []int
	commands = commands[:0]
	for i, result := range results {
		if noScript(result) {
			missed = append(missed, i)
			commands = append(commands, s.byText(client, runs[i]))
		}
	}
	for i, result := range client.DoMulti(ctx, commands...) {
		results[missed[i]] = result
	}
	return results
}

func (s script) bySHA(client rueidis.Client, r run) rueidis.Completed {
	return client.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(r.keys))).Key(r.keys...).Arg(r.args...).Build()
}

func (s script) byText(client rueidis.Client, r run) rueidis.Completed {
	return client.B().Eval().Script(s.text).Numkeys(int64(len(r.keys))).Key(r.keys...).Arg(r.args...).Build()
}

// noScript says that the server does not know the script, or no longer does:
// it forgets by SCRIPT FLUSH, restart and failover.
func noScript(result rueidis.RedisResult) bool {
	err, ok := rueidis.IsRedisErr(result.Error())
	return ok && err.IsNoScript()
}
