package actors

import (
	"fmt"
	"strconv"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/hypervisor"
)

// newAllowance makes what keeps the folders within [api.Config].FolderBytes.
func (s *Session) newAllowance() *fsbridge.Allowance {
	return fsbridge.NewAllowance(fsbridge.AllowanceOptions{
		Limit: s.cfg.FolderBytes, Clock: s.clock, Logger: s.cfg.Logger,
		Reached: func() {
			s.bus.Emit(api.Event{Type: api.EventWarning, Message: "a limit was reached: " + s.allowanceText()})
		},
	})
}

func (s *Session) allowanceText() string {
	limit, _ := s.allowance.Limit()
	return fmt.Sprintf("the working folders may take %s more (limits.folders, --limit-folders)", hypervisor.Bytes(limit))
}

// limitReached adds to the limits that a command has run into that of the folders, if something was refused since.
func (s *Session) limitReached(others string, before int64) string {
	switch {
	case s.allowance.Reached() == before:
		return others
	case others != "":
		others += ", "
	}
	return others + s.allowanceText()
}

// allowanceFacts say for people how much the folders may take, and have taken.
func (s *Session) allowanceFacts() map[string]string {
	limit, used := s.allowance.Limit()
	if limit == 0 {
		return nil
	}
	return map[string]string{"limit_folders": strconv.FormatInt(limit, 10), "folders": strconv.FormatInt(used, 10)}
}
