package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// report is everything that was measured.
type report struct {
	Machine   machine
	Commands  []commandsResult  `json:",omitempty"`
	Own       []ownResult       `json:",omitempty"`
	Contended []contendedResult `json:",omitempty"`
	Keepalive []keptResult      `json:",omitempty"`
	Limit     []limitResult     `json:",omitempty"`
	Clients   []ownResult       `json:",omitempty"`
	Quorum    []ownResult       `json:",omitempty"`
	Ratios    []ratio           `json:",omitempty"`

	plan plan
}

func (r *report) print(out io.Writer) error {
	r.Ratios = r.ratios()
	if !r.plan.json {
		_, err := io.WriteString(out, r.markdown())
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// sound returns an error if a lock did not do what it is for: then no figure
// counts.
func (r *report) sound() error {
	for _, o := range slices.Concat(r.Own, r.Clients, r.Quorum) {
		if n := o.overlaps(); n > 0 {
			return fmt.Errorf("%s: %d times a key had two holders", o.Library, n)
		}
	}
	for _, c := range r.Contended {
		if n := c.overlaps(); n > 0 {
			return fmt.Errorf("%s: %d times the key had two holders", c.Library, n)
		}
	}
	for _, k := range r.Keepalive {
		if k.Lost > 0 {
			return fmt.Errorf("%s: %d leases were lost", k.Library, k.Lost)
		}
	}
	if r.plan.ratios && r.Ratios == nil {
		return fmt.Errorf("no line of ratios: something that it needs was not measured")
	}
	return nil
}

func (r *report) markdown() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "%s · %s, %d cores · %s · Go %s · Redis %s · load when it began %s\n\n%s\n",
		m.Date, m.CPU, m.Cores, m.System, m.Go, m.Redis, m.Load, strings.Join(m.Modules, " · "))
	r.writeCommands(&b)
	r.writeOwn(&b, "Keys of their own", r.Own)
	r.writeOwn(&b, "Keys of their own, by the client that the store is given", r.Clients)
	r.writeOwn(&b, fmt.Sprintf("Keys of their own on %d servers, of which the figures of one are shown", quorumNodes), r.Quorum)
	r.writeContended(&b)
	r.writeKeepalive(&b)
	r.writeLimit(&b)
	r.writeNotes(&b)
	if r.Ratios != nil {
		b.WriteString("\n" + ratiosLine(r.Ratios))
	}
	return b.String()
}

// writeNotes says how the libraries are set up.
func (r *report) writeNotes(b *strings.Builder) {
	seen := map[string]bool{}
	for _, o := range slices.Concat(r.Own, r.Clients, r.Quorum) {
		seen[o.Library] = true
	}
	for _, c := range r.Contended {
		seen[c.Library] = true
	}
	if len(seen) == 0 {
		return
	}
	b.WriteString("\nHow each is set up:\n\n")
	for _, lib := range libraries {
		if seen[lib.name] {
			fmt.Fprintf(b, "- **%s**: %s\n", lib.name, lib.about)
		}
	}
}
