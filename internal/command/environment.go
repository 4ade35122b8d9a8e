package command

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/open"
)

// tokenVariable is set only on request: who has the token can release the lock.
const tokenVariable = "HOLDFAST_TOKEN"

// What a run once per slot gives in addition.
const (
	slotVariable    = "HOLDFAST_SLOT"
	attemptVariable = "HOLDFAST_ATTEMPT"
)

// ofOuterRun are variables of a run around us that are not to be handed on.
var ofOuterRun = []string{tokenVariable, slotVariable, attemptVariable}

// environment returns the environment of the child.
func (r *run) environment(s *session, lease *holdfast.Lease) []string {
	env := make([]string, 0, len(os.Environ())+5)
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !slices.Contains(ofOuterRun, name) {
			env = append(env, variable)
		}
	}
	env = append(env,
		"HOLDFAST_NAME="+lease.Name(),
		"HOLDFAST_FENCE="+strconv.FormatInt(lease.Fence(), 10),
		"HOLDFAST_OWNER="+driver.Holder{Token: lease.Token()}.Owner(),
		"HOLDFAST_STORE="+open.Redact(s.url))
	if r.flags.exportToken {
		env = append(env, tokenVariable+"="+lease.Token())
	}
	return env
}
