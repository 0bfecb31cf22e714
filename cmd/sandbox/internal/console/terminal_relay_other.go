//go:build !linux

package console

import (
	"errors"
	"os"

	"github.com/codeagent/sandbox/hypervisor"
)

// Relay has nothing to connect: no runtime exists here yet that would start a
// command.
type Relay struct {
	// Returned is never called.
	Returned func()
}

// NewRelay returns nil.
func NewRelay(_, _, _ *os.File) *Relay { return nil }

// Size, and what follows, is never called: there is no relay.
func (*Relay) Size() (rows, cols uint16)      { return 24, 80 }
func (*Relay) Foreground() bool               { return false }
func (*Relay) Of() [3]bool                    { return [3]bool{} }
func (*Relay) Partial() bool                  { return false }
func (*Relay) Hold() (release func())         { return func() {} }
func (*Relay) Start(hypervisor.Process) error { return errors.ErrUnsupported }
func (*Relay) Stop()                          {}
func (*Relay) Ask(PromptQuestion, <-chan struct{}) (a PromptAnswer, answered bool) {
	return PromptAnswer{}, false
}

// OpenPrompt finds no terminal.
func OpenPrompt() (*os.File, error) { return nil, errors.ErrUnsupported }

// PromptOn gets no answer.
func PromptOn(*os.File, PromptQuestion, <-chan struct{}) (a PromptAnswer, answered bool) {
	return PromptAnswer{}, false
}
