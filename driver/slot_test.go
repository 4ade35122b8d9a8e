package driver

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestASlotIsJudgedByWhatIsKnownOfIt(t *testing.T) {
	now := time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	none := Run{}
	running, mine := Run{Phase: Running, Token: "other", Attempt: 2}, Run{Phase: Running, Token: "mine", Attempt: 2}
	done, failed := Run{Phase: Done, Token: "other", Attempt: 2}, Run{Phase: Done, Token: "other", Attempt: 2, Code: 3}
	lost, failedMine := Run{Phase: Lost, Token: "other", Attempt: 2}, Run{Phase: Done, Token: "mine", Attempt: 2, Code: 3}
	for name, c := range map[string]struct {
		last Run
		req  BeginRequest
		want Verdict
	}{
		"new":                              {none, BeginRequest{}, Begun},
		"new, one attempt":                 {none, BeginRequest{MaxAttempts: 1}, Begun},
		"new, just in time":                {none, BeginRequest{NotAfter: now}, Begun},
		"new, too late":                    {none, BeginRequest{NotAfter: now.Add(-1)}, TooLate},
		"crashed":                          {running, BeginRequest{}, Begun},
		"crashed, an attempt is left":      {running, BeginRequest{MaxAttempts: 3}, Begun},
		"crashed in its last attempt":      {running, BeginRequest{MaxAttempts: 2}, Ended},
		"crashed, too late":                {running, BeginRequest{NotAfter: now.Add(-1)}, TooLate},
		"crashed in its last, too late":    {running, BeginRequest{MaxAttempts: 1, NotAfter: now.Add(-1)}, Ended},
		"mine already, whatever else":      {mine, BeginRequest{MaxAttempts: 1, NotAfter: now.Add(-1)}, Begun},
		"done":                             {done, BeginRequest{RetryFailed: true}, Ended},
		"done, too late":                   {done, BeginRequest{NotAfter: now.Add(-1)}, Ended},
		"failed":                           {failed, BeginRequest{}, Ended},
		"failed, to be tried again":        {failed, BeginRequest{RetryFailed: true}, Begun},
		"failed in its last attempt":       {failed, BeginRequest{RetryFailed: true, MaxAttempts: 2}, Ended},
		"failed by this very token":        {failedMine, BeginRequest{RetryFailed: true}, Ended},
		"failed, to be tried, too late":    {failed, BeginRequest{RetryFailed: true, NotAfter: now.Add(-1)}, TooLate},
		"lost":                             {lost, BeginRequest{RetryFailed: true}, Ended},
		"lost, with more attempts allowed": {lost, BeginRequest{MaxAttempts: 9}, Ended},
	} {
		c.req.Token = "mine"
		if got := c.req.Judge(c.last, now); got != c.want {
			t.Errorf("%s: verdict %d, want %d", name, got, c.want)
		}
	}
}

func TestBadSlotsAreRefusedWithAReason(t *testing.T) {
	for slot, reason := range map[string]string{
		"":                             "empty",
		"a\nb":                         "control",
		"\xff":                         "UTF-8",
		strings.Repeat("s", MaxSlot+1): "121 bytes",
	} {
		if err := CheckSlot(slot); !errors.Is(err, ErrMisconfigured) || !strings.Contains(err.Error(), reason) || Unknown(err) {
			t.Errorf("%q: %v", slot, err)
		}
	}
	for _, slot := range []string{"1", "~", "2026-11-29T02:00:00Z", "日本 é", "{}", strings.Repeat("s", MaxSlot)} {
		if err := CheckSlot(slot); err != nil {
			t.Error(err)
		}
	}
}
