package drivertest

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"testing"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/memstore"
)

// wrongStore is the environment variable that names the wrong store which a
// process, started by the test below, runs the suite on.
const wrongStore = "DRIVERTEST_WRONG_STORE"

// TestEachWrongStoreFails runs the suite on deliberately wrong stores, each in a
// process of its own, and each must fail the part named. A suite that has never
// failed proves nothing.
func TestEachWrongStoreFails(t *testing.T) {
	if os.Getenv(wrongStore) != "" {
		t.Skip("this process is to run one of them")
	}
	for name, wrong := range allWrongStores() {
		for _, part := range wrong.fails {
			t.Run(name+"/"+part, func(t *testing.T) {
				t.Parallel()
				out, err := runOn(name, part)
				if err == nil || !bytes.Contains(out, []byte("--- FAIL: TestTheStoreNamed/"+part+" ")) {
					t.Errorf("%s passed, or failed otherwise: %v\n%s", part, err, out)
				}
			})
		}
	}
}

func TestEveryPartFindsAMistake(t *testing.T) {
	found := make(map[string]bool)
	for _, wrong := range allWrongStores() {
		for _, part := range wrong.fails {
			found[part] = true
		}
	}
	for _, part := range parts {
		if !found[part.name] {
			t.Errorf("no wrong store fails %s", part.name)
		}
		delete(found, part.name)
	}
	for name := range found {
		t.Errorf("there is no part %s", name)
	}
}

// TestTheRightStorePassesLikewise shows that what fails above does not fail by
// the way it is run.
func TestTheRightStorePassesLikewise(t *testing.T) {
	if out, err := runOn("none", ".*"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// allWrongStores are those of locks, of queues, of slots and of raised fences.
func allWrongStores() map[string]wrong {
	all := maps.Clone(wrongStores)
	maps.Copy(all, wrongQueues)
	maps.Copy(all, wrongSlots)
	maps.Copy(all, wrongRaises)
	return all
}

func runOn(name, part string) ([]byte, error) {
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^TestTheStoreNamed$/^"+part+"$")
	cmd.Env = append(os.Environ(), wrongStore+"="+name, "GORACE=atexit_sleep_ms=0")
	return cmd.CombinedOutput()
}

func TestTheStoreNamed(t *testing.T) {
	name := os.Getenv(wrongStore)
	if name == "" {
		t.Skip("only run by the tests above")
	}
	Run(t, func(*testing.T) Backend {
		right := memstore.New()
		backend := inMemory(right)
		if name != "none" {
			opened := allWrongStores()[name].make(right)
			backend.Open = func(*testing.T) driver.Store { return opened() }
		}
		return backend
	})
}
