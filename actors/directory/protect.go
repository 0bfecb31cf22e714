package directory

import (
	"github.com/codeagent/sandbox/actors/interceptor"
	"github.com/codeagent/sandbox/messages"
)

// Protection is what decides about writing to a folder, beside its safeguards.
type Protection struct {
	// Entry is [interceptor.Options.Entry].
	Entry func(names []string) (from, to int, ok bool)
	// Carries and Targets are [interceptor.Options.Carries] and [interceptor.Options.Targets].
	Carries func(names []string) (from int, ok bool)
	Targets func(folder string) [][]string
	// Writes returns the rules for the folder, or nil.
	Writes func(folder string) interceptor.Writes
	// Remember keeps a person's answer about a path, or about what is below it.
	Remember func(path string, below bool, a *messages.Answer)
	// Refused is told what a rule denied.
	Refused func(folder, path, rule string)
}

func (d *Directory) writes() interceptor.Writes {
	if d.env.Protection.Writes == nil {
		return nil
	}
	return d.env.Protection.Writes(d.Config.Path)
}

func (d *Directory) remember(entry string, below bool, a *messages.Answer) {
	if r := d.env.Protection.Remember; r != nil {
		r(d.Config.Path+"/"+entry, below, a)
	}
}

func (d *Directory) refused(path, rule string) {
	if r := d.env.Protection.Refused; r != nil {
		r(d.Config.Path, path, rule)
	}
}
