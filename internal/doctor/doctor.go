// Package doctor examines whether a store is fit for locks: one function for
// each subject, which looks and says what it found.
//
// Nothing is changed. What a server has to be asked to do, in order to know
// whether it would, is asked in a form that has no effect, on a key that does
// not exist. What stays behind is what any client leaves: counters of commands,
// in the log of the ACL the commands that were refused, and in the cache of
// scripts the one that returns 1.
package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/open"
)

// Severity says how much a finding matters for locks.
type Severity string

// The severities, the least first.
const (
	OK      Severity = "ok"      // as it should be
	Note    Severity = "note"    // worth knowing, or not to be seen
	Warning Severity = "warning" // two may hold a lock, or nobody get it, when something else happens
	Failure Severity = "failure" // locks don't work, or are lost in everyday use
)

// worse returns the one that matters more.
func worse(a, b Severity) Severity {
	order := []Severity{OK, Note, Warning, Failure}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// Finding is one thing that was found.
type Finding struct {
	Severity Severity `json:"severity"`
	// Check is the short name of what was looked at. It stays the same over
	// versions; the texts do not.
	Check string `json:"check"`
	// Where is the server that was looked at, or several; empty where a store is
	// one server, or all of it is meant.
	Where string `json:"where"`
	Found string `json:"found"`
	// Why says what it means for a lock, and Fix is something to type or to write
	// into a file. Both are empty where all is well; Fix also where it depends.
	Why string `json:"why"`
	Fix string `json:"fix"`
}

// Options says how a store is examined.
type Options struct {
	// TTL is that of the leases by which times are judged.
	TTL time.Duration
	// ConnectTimeout is for how long a server that can't be reached is tried.
	ConnectTimeout time.Duration
	// Found is told of each finding when it is made, by one goroutine.
	Found func(Finding)
}

// Examine examines the store of a URL. An error, of the kinds of package driver,
// says that the examination could not be made, or came to no end; what was found
// before that was told.
func Examine(ctx context.Context, url string, options Options) error {
	r := &report{Options: options}
	scheme, _, _ := strings.Cut(url, "://")
	switch scheme {
	case open.Local, "sqlite":
		return examineFile(ctx, r, url)
	case "postgres", "postgresql":
		return examinePostgres(ctx, r, url)
	default:
		return examineRedis(ctx, r, url)
	}
}

// report is where findings go.
type report struct {
	Options
	where string
}

func (r *report) ok(check, found string) { r.Found(Finding{OK, check, r.where, found, "", ""}) }

func (r *report) add(severity Severity, check, found, why, fix string) {
	r.Found(Finding{severity, check, r.where, found, why, fix})
}

// unseen is for what the server does not let us see.
func (r *report) unseen(check string, err error, what, fix string) {
	r.add(Note, check, "can't be seen: "+oneLine(err), "so nothing is said of "+what, fix)
}

// at is the report for one of several servers.
func (r *report) at(where string) *report { return &report{r.Options, where} }

// without is the report that leaves texts out of what was found: pairs are a text
// and what stands in its place.
func (r *report) without(pairs []string) *report {
	replacer, found := strings.NewReplacer(pairs...), r.Found
	clean := *r
	clean.Found = func(f Finding) {
		f.Found = replacer.Replace(f.Found)
		found(f)
	}
	return &clean
}

// oneLine is the text of an error.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// storesOwn is the error of the store itself, where a server has refused us: the
// store knows what that means, and says it as for every other command.
func storesOwn(ctx context.Context, url string) error {
	limited, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	store, closer, err := open.Store(limited, url, open.Options{})
	if err != nil {
		return err
	}
	defer closer.Close()
	if _, err = store.Inspect(limited, "doctor"); err != nil {
		return err
	}
	return &driver.Error{Kind: driver.ErrUnreachable, Err: errors.New("the store refused, and now does not")}
}
