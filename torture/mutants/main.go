// Command mutants shows that the torture can fail: it breaks holdfast in many
// ways, one after the other, and has each broken build caught.
//
//	go run ./torture/mutants            all of them, and that the unbroken build passes
//	go run ./torture/mutants -only redis
//
// A mutant is a patch in patches/, applied to one build by go build -overlay;
// its first lines say what is broken and what must catch it. One that is not
// caught, or does not apply any more, makes the exit code 1.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/holdfastlock/holdfast/torture/overlay"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := &runner{ctx: ctx}
	only := flag.String("only", "", "run only the mutants whose names match this regular `expression`, without the unbroken build")
	list := flag.Bool("list", false, "list the mutants and what must catch each")
	flag.Uint64Var(&r.seed, "seed", 1, "the first `seed` of every catcher")
	flag.DurationVar(&r.limit, "limit", 90*time.Second, "how long a mutant may remain uncaught, the build not counted")
	flag.Parse()
	if err := r.main(*only, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// runner runs mutants.
type runner struct {
	ctx     context.Context
	root    string // of the module
	dir     string // for what is built
	seed    uint64
	limit   time.Duration
	harness func() (string, error) // builds the torture, once
}

// atOnce is how many mutants are tried at the same time: each has a few processes
// of its own.
const atOnce = 2

func (r *runner) main(only string, list bool) (err error) {
	if r.root, err = overlay.Root(); err != nil {
		return err
	}
	mutants, err := readMutants(filepath.Join(r.root, "torture", "mutants", "patches"))
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range mutants {
		if wanted.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if list {
		for _, m := range chosen {
			fmt.Printf("%-38s %s\n%40s%s\n", m.name, m.broken, "", m.catcher)
		}
		return nil
	}
	if only == "" {
		chosen = append(unbroken(mutants), chosen...)
	}
	if len(chosen) == 0 {
		return fmt.Errorf("the name of no mutant matches %q; see -list", only)
	}
	if r.dir, err = os.MkdirTemp("", "mutants-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	r.harness = sync.OnceValues(r.buildHarness)
	return r.tryAll(chosen)
}

// unbroken returns a mutant that changes nothing for each different catcher.
func unbroken(mutants []mutant) []mutant {
	var all []mutant
	seen := map[catcher]bool{}
	for _, m := range mutants {
		if c := m.catcher.control(); !seen[c] {
			seen[c] = true
			all = append(all, mutant{name: "unbroken", catcher: c})
		}
	}
	return all
}

// tryAll prints a line for each mutant, and an error if one has survived.
func (r *runner) tryAll(mutants []mutant) error {
	began := time.Now()
	var printing sync.Mutex
	var caught, broken, wrong int
	var tries sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for _, m := range mutants {
		free <- struct{}{}
		tries.Go(func() {
			v := r.try(m)
			printing.Lock()
			defer printing.Unlock()
			if m.patch.Text != nil {
				broken++
			}
			switch {
			case v.err != nil || v.caught == (m.patch.Text == nil):
				wrong++
			case v.caught:
				caught++
			}
			fmt.Println(m.line(v))
			<-free
		})
	}
	tries.Wait()
	fmt.Printf("%d of %d caught, in %v\n", caught, broken, time.Since(began).Round(time.Second))
	if wrong > 0 {
		return fmt.Errorf("%d did not end as they must", wrong)
	}
	return nil
}

// line says what became of the mutant.
func (m mutant) line(v verdict) string {
	word := "SURVIVED"
	switch {
	case v.err != nil:
		word = "FAILED"
	case v.caught && m.patch.Text == nil:
		word = "VIOLATED"
	case m.patch.Text == nil:
		word = "passed"
	case v.caught:
		word = "caught"
	}
	text := fmt.Sprintf("%-9s%-38s %-50s %5.1fs  %s", word, m.name, m.catcher, v.took.Seconds(), v.effort)
	if v.how != "" {
		text += "\n" + strings.Repeat(" ", 9) + v.how
	}
	if v.err != nil {
		text += "\n" + v.err.Error()
	}
	return text
}
