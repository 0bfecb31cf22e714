package serve

import (
	"fmt"
	"strings"

	"github.com/codeagent/sandbox/actors/frontend/mcp"
	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// advice is what is thought of commands before they run. It never protects
// anything: it decides whether a person is asked first.
type advice struct {
	k      *Classifier
	policy string // classifier.auto_approve
}

func newAdvice(conf *config.Set) (*advice, error) {
	c := conf.Classifier
	k, err := NewClassifier(ClassifierConfig{ReadOnly: c.ReadOnly, Write: c.Write, Destructive: c.Destructive, MaxBytes: int(c.MaxBytes)})
	if err != nil {
		return nil, err
	}
	return &advice{k, c.AutoApprove}, nil
}

// classify looks at a command's text where it is one for the shell.
func (d *advice) classify(argv []string) Classified {
	if len(argv) == 3 && argv[0] == "sh" && argv[1] == "-c" {
		return d.k.Classify(argv[2])
	}
	return d.k.ClassifyArgs(argv)
}

// question is what a person is asked before the command runs; empty if it runs
// without.
func (d *advice) question(argv []string) string {
	r := d.classify(argv)
	if d.policy == "all" || r.AutoApprove(d.policy) {
		return ""
	}
	text := strings.Join(argv, " ")
	if len(argv) == 3 && argv[1] == "-c" {
		text = argv[2]
	}
	return fmt.Sprintf("About to run (%s): %s", r.Why(), console.Clip(strings.ToValidUTF8(text, "\uFFFD"), 500))
}

func (s *server) classifyForMCP(command string) mcp.Classification {
	r := s.advice.Load().k.Classify(command)
	c := mcp.Classification{Class: r.Class.String()}
	for _, w := range r.Warnings {
		c.Warnings = append(c.Warnings, w.Message)
	}
	return c
}

func (s *server) classifyForStdio(argv []string) (class string, warnings []stdio.Suspicion) {
	r := s.advice.Load().classify(argv)
	for _, w := range r.Warnings {
		warnings = append(warnings, stdio.Suspicion{Code: string(w.Code), Message: w.Message})
	}
	return r.Class.String(), warnings
}
