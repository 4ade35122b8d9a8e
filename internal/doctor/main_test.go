package doctor

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main{M: m}) }

// findings are those of one examination.
type findings []Finding

// tryExamine examines a store.
func tryExamine(t *testing.T, url string, ttl time.Duration) (findings, error) {
	t.Helper()
	var all findings
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := Examine(ctx, url, Options{TTL: ttl, ConnectTimeout: 5 * time.Second, Found: func(f Finding) { all = append(all, f) }})
	return all, err
}

// examine is tryExamine of a store that can be examined.
func examine(t *testing.T, url string) findings {
	t.Helper()
	all, err := tryExamine(t, url, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// want checks a finding, whose text has all the parts, in what was found or in the
// fix.
func (all findings) want(t *testing.T, severity Severity, check string, parts ...string) {
	t.Helper()
	for _, f := range all {
		if f.Check != check {
			continue
		}
		complete := f.Severity == severity
		for _, part := range parts {
			complete = complete && strings.Contains(f.Found+"\n"+f.Fix+"\n"+f.Where, part)
		}
		if complete {
			return
		}
	}
	t.Errorf("no %s of %s with %q among:\n%s", severity, check, parts, all)
}

// wantFit checks that nothing is wrong.
func (all findings) wantFit(t *testing.T) {
	t.Helper()
	if len(all) == 0 {
		t.Error("nothing was found")
	}
	for _, f := range all {
		if f.Severity == Warning || f.Severity == Failure {
			t.Errorf("%s %s: %s", f.Severity, f.Check, f.Found)
		}
		if f.Severity != OK && f.Why == "" {
			t.Errorf("%s is not said to matter: %s", f.Check, f.Found)
		}
	}
}

func (all findings) String() string {
	var text strings.Builder
	for _, f := range all {
		text.WriteString(strings.Join([]string{string(f.Severity), f.Check, f.Where, f.Found, f.Fix}, " | ") + "\n")
	}
	return text.String()
}
