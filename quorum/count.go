package quorum

import "github.com/holdfastlock/holdfast/driver"

// found is what a node found when it compared a token.
type found struct {
	node   int
	answer driver.Answer
	why    error
	err    error
}

func (f found) from() (int, bool) { return f.node, f.err != nil }

// count counts what nodes have found of one token.
type count struct {
	majority, nodes   int
	mine, gone, taken int
	why               error
	errs              failures
}

// add takes in one more reply, and says whether more of them would change
// nothing.
func (c *count) add(r found) (decided bool) {
	switch {
	case r.err != nil:
		c.errs.note(r.node, r.err)
	case r.answer == driver.Mine:
		c.mine++
	case r.answer == driver.Taken:
		c.taken++
	default:
		c.gone++
	}
	if r.err == nil && r.why != nil {
		c.why = r.why
	}
	return c.decided()
}

func (c *count) decided() bool {
	return max(c.mine, c.gone, c.taken, c.errs.count) >= c.majority
}

func (c *count) answered() int { return c.mine + c.gone + c.taken }

// released is the answer to a release. Where nodes have not answered, those that
// have decide for them.
func (c *count) released() (driver.Answer, error) {
	missing := c.nodes - c.answered()
	switch {
	case c.answered() < c.majority:
		return 0, c.errs.verdict(c.nodes, c.answered(), c.majority)
	case c.mine > 0 && c.mine+missing >= c.majority:
		return driver.Mine, nil
	default:
		return c.lost(missing), nil
	}
}

// extended is the answer to an extension, which is Mine only if a majority says
// so, and a loss only if no majority can.
func (c *count) extended() driver.ExtendResult {
	missing := c.nodes - c.answered()
	switch {
	case c.mine >= c.majority:
		return driver.ExtendResult{Answer: driver.Mine}
	case c.mine+missing >= c.majority:
		return driver.ExtendResult{Err: c.errs.verdict(c.nodes, c.answered(), c.majority)}
	default:
		return driver.ExtendResult{Answer: c.lost(missing), Why: c.why}
	}
}

// lost is the answer where the token has no majority.
func (c *count) lost(missing int) driver.Answer {
	if c.taken > 0 && c.taken+missing >= c.majority {
		return driver.Taken
	}
	return driver.Gone
}
