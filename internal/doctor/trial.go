package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// trial is the attempt to do each thing once.
type trial struct {
	server   *server
	tried    int
	severity Severity
	refused  []string // commands
	absent   []string // commands that the server does not have
	missed   Severity // of these
	uses     []string // what does not work without them
	grants   []string // what to add to the user
}

// rights tries each command of the rule, and says which are missing in one line
// to paste.
func rights(ctx context.Context, r *report, s *server) {
	t := &trial{server: s, severity: OK, missed: OK}
	scripted, plain := t.scripted(ctx)
	wanted := needed
	if plain {
		wanted = neededPlain()
	}
	for _, want := range slices.Concat(wanted, s.inAddition(), []right{publishRight.sharded(s.cluster)}) {
		t.note(want, s.do(ctx, s.words(want.try)...).Error())
	}
	listened := t.listen(ctx)
	if s.lost != nil {
		return
	}
	t.channels()
	t.tell(r)
	scripted(r)
	t.pubsub(r, listened)
}

// note takes down what came of trying a command.
func (t *trial) note(want right, err error) {
	t.tried++
	switch {
	case err == nil || !said(err):
	case isNoPerm(err):
		missing := t.server.missing(want.command, err)
		t.refused = appendOnce(t.refused, strings.TrimPrefix(missing, "+"))
		t.grants = appendOnce(t.grants, missing)
		t.uses = appendOnce(t.uses, want.use)
		t.severity = worse(t.severity, want.severity)
	case isUnknown(err):
		t.absent = append(t.absent, want.command)
		t.missed = worse(t.missed, want.severity)
	}
}

// channels adds our channels where it can't be seen whether they are allowed,
// since the commands are not. From Redis 7 on a user has none by default; to
// grant them to one who has all, as before that, would be refused.
func (t *trial) channels() {
	s := t.server
	hidden := t.lacks(publishRight.sharded(s.cluster).command) && t.lacks(subscribeRight.sharded(s.cluster).command)
	flavour, number := s.product()
	if hidden && (flavour == "Valkey" || !older(number, 7, 0)) {
		t.grants = appendOnce(t.grants, "&"+pattern(s.options.Prefix))
	}
}

// lacks says that a command is refused.
func (t *trial) lacks(command string) bool {
	return slices.Contains(t.refused, command) || slices.Contains(t.absent, command)
}

func (t *trial) tell(r *report) {
	s := t.server
	if len(t.absent) > 0 {
		r.add(t.missed, "commands", "the server does not know "+strings.Join(t.absent, ", "),
			"holdfast needs them; they are renamed or left out, by rename-command or by who runs the server",
			"let the server have them under their own names")
	}
	if len(t.grants) > 0 {
		r.add(t.severity, "rights", "user "+s.user()+" may not: "+strings.Join(t.refused, ", "),
			"without that does not work: "+strings.Join(t.uses, ", "), s.allow(t.grants...))
	}
	if len(t.absent)+len(t.grants) == 0 {
		r.ok("rights", fmt.Sprintf("user %s has all %d commands, and the keys and channels of %s", s.user(), t.tried, s.options.Prefix))
	}
}
