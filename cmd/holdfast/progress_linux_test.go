package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/internal/redistest"
)

// slowServer is a server of some thousand keys whose every answer takes a while.
func slowServer(t *testing.T) string {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	fill := "for i = 1, 5000 do redis.call('SET', 'key:' .. i, i) end return 1"
	if err := server.Do("EVAL", fill, "0").Error(); err != nil {
		t.Fatal(err)
	}
	proxy.Delay(100 * time.Millisecond)
	return "redis://" + proxy.Addr()
}

func TestALongListingShowsItsProgressOnATerminalOnly(t *testing.T) {
	store := slowServer(t)
	for _, flags := range []string{"", "--foreign"} {
		term := atTerminal(t, fmt.Sprintf(`holdfast ls --store %s %s`, store, flags))
		term.expect(" of 5000 keys")
		term.end()
		// It is wiped out before the list is written.
		if text := term.text(); strings.LastIndex(text, "\x1b[K") < strings.LastIndex(text, "looked at") || !strings.Contains(text, "STATE") {
			t.Errorf("with %q the terminal shows %q", flags, text)
		}
	}
	term := atTerminal(t, fmt.Sprintf(`holdfast ls --store %s 2>errors; test ! -s errors && echo silent`, store))
	term.expect("silent")
	term.end()
}
