package redisslot

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRedisPutsAKeyInTheSlotOfItsHashedText(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Args: []string{"--cluster-enabled", "yes"}})
	slot := func(key string) int64 {
		number, err := server.Do("CLUSTER", "KEYSLOT", key).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return number
	}
	for key, want := range map[string]string{
		"report": "report", "{a}b": "a", "b{a}": "a", "{a}{b}": "a", "{{a}}": "{a",
		"{}a": "{}a", "{}{a}": "{}{a}", "{a": "{a", "a}": "a}", "}{a}": "a",
	} {
		// The slot of a text that has no tag is that of the text itself.
		if got := Hashed(key); got != want || slot(key) != slot("{"+got+"}") && slot(key) != slot(got) {
			t.Errorf("%q: hashed text %q, want %q", key, got, want)
		}
		if got := Of(key); int64(got) != slot(key) {
			t.Errorf("%q: slot %d, want %d", key, got, slot(key))
		}
	}
}
