package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// natives are the commands that compare by themselves. None has an effect on a
// key that does not exist.
var natives = map[string]string{
	"DELIFEQ":  "DELIFEQ KEY v",
	"DELEX":    "DELEX KEY IFEQ v",
	"SET IFEQ": "SET KEY v IFEQ v PX 1",
}

// native says with which commands the server compares without a script.
func native(ctx context.Context, r *report, s *server) {
	var has []string
	for name, try := range natives {
		if err := s.do(ctx, s.words(try)...).Error(); err == nil || rueidis.IsRedisNil(err) {
			has = append(has, name)
		}
	}
	slices.Sort(has)
	if len(has) == 0 {
		r.ok("native", "no commands that compare (DELIFEQ, DELEX, SET … IFEQ); not needed where scripts run")
		return
	}
	r.ok("native", "the server compares by itself: "+strings.Join(has, ", "))
}
