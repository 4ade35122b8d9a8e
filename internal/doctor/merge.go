package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// merged collects what was found on several servers, so that what is the same on
// some of them is said once.
type merged struct {
	servers  int
	findings []Finding // Where is that of the first
	wheres   [][]string
}

// report is one for the next server.
func (m *merged) report(options Options, where string) *report {
	m.servers++
	options.Found = func(f Finding) {
		f.Where = ""
		if i := slices.Index(m.findings, f); i >= 0 {
			m.wheres[i] = append(m.wheres[i], where)
			return
		}
		m.findings = append(m.findings, f)
		m.wheres = append(m.wheres, []string{where})
	}
	return &report{options, where}
}

// tell says what was found on all servers, then what was found on one or some.
func (m *merged) tell(found func(Finding)) {
	order := make([]int, len(m.findings))
	for i := range order {
		order[i] = i
		m.findings[i].Where = strings.Join(m.wheres[i], ", ")
		if len(m.wheres[i]) == m.servers && m.servers > 1 {
			m.findings[i].Where = fmt.Sprintf("all %d servers", m.servers)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if n := len(m.wheres[b]) - len(m.wheres[a]); n != 0 {
			return n
		}
		return strings.Compare(m.findings[a].Where, m.findings[b].Where)
	})
	for _, i := range order {
		found(m.findings[i])
	}
}
