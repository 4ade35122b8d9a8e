package check

import (
	"cmp"
	"slices"
	"sort"
)

// interval is a time that includes both of its ends.
type interval struct{ from, to int64 }

// merged returns the intervals in order, those that touch made one.
func merged(list []interval) []interval {
	slices.SortFunc(list, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	var all []interval
	for _, i := range list {
		if n := len(all); n > 0 && i.from <= all[n-1].to {
			all[n-1].to = max(all[n-1].to, i.to)
			continue
		}
		all = append(all, i)
	}
	return all
}

// overlaps says whether one of the merged intervals has a part between from and
// to.
func overlaps(list []interval, from, to int64) bool {
	i := sort.Search(len(list), func(i int) bool { return list[i].to >= from })
	return i < len(list) && list[i].from <= to
}
