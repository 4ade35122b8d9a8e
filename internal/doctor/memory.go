package doctor

import (
	"context"
	"fmt"
	"strconv"
)

// eviction says what the server does when its memory is full. The policy counts,
// whatever the limit is, since that can be set at any time; a policy named
// volatile evicts locks as well, since they expire.
func eviction(_ context.Context, r *report, s *server) {
	policy, known := s.info["maxmemory_policy"]
	if !known {
		return // version has said that INFO is refused
	}
	found := "maxmemory-policy " + policy
	if policy == "noeviction" {
		r.ok("eviction", found)
		return
	}
	severity := Warning
	if s.number("maxmemory") > 0 {
		severity = Failure
	}
	if evicted := s.number("evicted_keys"); evicted > 0 {
		found += fmt.Sprintf(", %d keys evicted so far", evicted)
	}
	r.add(severity, "eviction", found,
		"when memory is full the server may drop a lock that is held, and then two hold it",
		"CONFIG SET maxmemory-policy noeviction")
}

// memory says how much room there is before new locks are refused.
func memory(_ context.Context, r *report, s *server) {
	if _, known := s.info["maxmemory"]; !known {
		return
	}
	used, limit := s.number("used_memory"), s.number("maxmemory")
	if limit == 0 {
		r.add(Note, "memory", "no maxmemory; "+size(used)+" used",
			"the server may grow until the machine's memory is full, and the system kills it",
			more(used))
		return
	}
	found := fmt.Sprintf("%s of %s used", size(used), size(limit))
	const why = "with noeviction a full server refuses new locks; those that are held go on"
	switch {
	case used >= limit:
		r.add(Failure, "memory", found, why, more(used))
	case used*10 >= limit*9:
		r.add(Warning, "memory", found, why, more(used))
	default:
		r.ok("memory", found)
	}
}

// more is how to have twice the memory that is used, or a gigabyte.
func more(used int64) string {
	return fmt.Sprintf("CONFIG SET maxmemory %dmb", max(2*used, 1<<30)>>20)
}

// number is a number of INFO, 0 where it is not there.
func (s *server) number(name string) int64 {
	n, _ := strconv.ParseInt(s.info[name], 10, 64)
	return n
}

// size writes bytes for people.
func size(bytes int64) string {
	switch {
	case bytes >= 10<<30:
		return fmt.Sprintf("%d GiB", bytes>>30)
	case bytes >= 10<<20:
		return fmt.Sprintf("%d MiB", bytes>>20)
	default:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
}
