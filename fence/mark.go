package fence

// Mark is what a resource remembers: the largest fence that it has seen, and who
// has shown it. The zero Mark is that of a resource that has seen none.
type Mark struct {
	Fence int64
	Owner string
}

// Check returns nil if a resource that remembers m may let this owner in with
// this fence, and otherwise a *StaleError, a *ConflictError or ErrNoFence. It is
// the rule by itself, for those who keep the mark in a place of their own, such
// as the metadata of an object. They store the new mark in the same step as
// their change, and only if the old one is still there.
func (m Mark) Check(resource, owner string, fence int64) error {
	switch {
	case fence <= 0:
		return ErrNoFence
	case fence < m.Fence:
		return &StaleError{Resource: resource, Fence: fence, Newest: m.Fence}
	case fence == m.Fence && owner != m.Owner:
		return &ConflictError{Resource: resource, Fence: fence, Owner: owner, First: m.Owner}
	}
	return nil
}
