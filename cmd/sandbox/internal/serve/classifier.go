package serve

import (
	"errors"
	"fmt"
	"strings"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/fsbridge/texts"
)

// Class is how much a command may change. Greater is worse.
type Class int

// The classes.
const (
	// ReadOnly: changes no files.
	ReadOnly Class = iota
	// Write: may change files, or is not known.
	WriteClass
	// Destructive: deletes, or discards what the program itself cannot bring back.
	Destructive
)

// String returns "read_only", "write" or "destructive".
func (c Class) String() string {
	switch c {
	case ReadOnly:
		return "read_only"
	case Destructive:
		return "destructive"
	}
	return "write"
}

// MarshalText implements encoding.TextMarshaler.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Class) UnmarshalText(b []byte) error {
	switch strings.ReplaceAll(string(b), "-", "_") {
	case "read_only":
		*c = ReadOnly
	case "write":
		*c = WriteClass
	case "destructive":
		*c = Destructive
	default:
		return fmt.Errorf("classifier: %q is not one of read_only, write, destructive", b)
	}
	return nil
}

// Why says in one line what is thought of the command; for people.
func (r Classified) Why() string {
	why := r.Class.String()
	if len(r.Reasons) > 0 {
		why += ": " + r.Reasons[0]
	}
	for _, w := range r.Warnings {
		why += "; " + w.Message
	}
	return why
}

// ClassifierConfig adds to what the classifier knows. A pattern is the beginning of a
// command, word by word; each word may be a pattern of package texts ("just lint",
// "kubectl get", "*-dry-run"). The longest pattern that fits wins, of equally
// long ones the worse class; one that fits takes the place of what is built in.
// Redirections and substitutions count all the same, and the checks for
// suspicious text cannot be configured.
type ClassifierConfig struct {
	ReadOnly    []string `toml:"read_only" json:"read_only,omitempty"`
	Write       []string `toml:"write" json:"write,omitempty"`
	Destructive []string `toml:"destructive" json:"destructive,omitempty"`
	// MaxBytes is how much of a command is looked at; what is longer is at least
	// [WriteClass], with a warning. 0 means [config.ClassifierBytes].
	MaxBytes int `toml:"max_bytes" json:"max_bytes,omitempty"`
}

// Classified is what is said of a command.
type Classified struct {
	Class Class `json:"class"`
	// Reasons say why Class is not ReadOnly; for people.
	Reasons []string `json:"reasons,omitempty"`
	// Warnings are what looks suspicious, whatever the class.
	Warnings []Warning `json:"warnings,omitempty"`
	// Unparsed: a part could not be understood.
	Unparsed bool `json:"unparsed,omitempty"`
}

// Warning is one suspicious thing.
type Warning struct {
	Code    WarningCode `json:"code"`
	Message string      `json:"message"`
}

// WarningCode names a kind of warning; it is stable.
type WarningCode string

// The warnings.
const (
	WarnNUL         WarningCode = "nul"             // a NUL byte
	WarnControl     WarningCode = "control"         // control characters
	WarnInvisible   WarningCode = "invisible"       // characters that are not seen, or that reorder text
	WarnEncoding    WarningCode = "encoding"        // not UTF-8
	WarnOverlong    WarningCode = "overlong"        // longer than is looked at
	WarnPipeToShell WarningCode = "pipe_to_shell"   // what was downloaded is run
	WarnDecodedCode WarningCode = "decoded_code"    // what was decoded is run
	WarnForkBomb    WarningCode = "fork_bomb"       // a function that multiplies itself
	WarnPrivilege   WarningCode = "privilege"       // sudo and the like
	WarnDevice      WarningCode = "device"          // a disk or memory device
	WarnGitHook     WarningCode = "git_hook"        // would be run by git later
	WarnStartup     WarningCode = "startup_file"    // would be run at a login or boot, or lets somebody in
	WarnBroadDelete WarningCode = "broad_delete"    // deletes a root, a home, or something computed
	WarnNetwork     WarningCode = "network_shell"   // a connection made by the shell itself
	WarnLoader      WarningCode = "loader_variable" // a variable that puts code into other programs
	WarnComputed    WarningCode = "computed"        // the program's name is computed
)

// AutoApprove reports whether policy lets a command with this result run
// without a question before it. The only policy that does is "read-only" (or
// "read_only"): the command must be read-only, parsed in full and without
// warnings. This is about the question before a command runs, if a frontend asks
// one; safeguards are raised by what a command does and are never approved by
// what it was thought to be.
func (r Classified) AutoApprove(policy string) bool {
	return (policy == "read-only" || policy == "read_only") && r.Class == ReadOnly && !r.Unparsed && len(r.Warnings) == 0
}

// Classifier classifies commands. Its zero value knows what is built in.
type Classifier struct {
	max   int
	extra []pattern
}

type pattern struct {
	words []string
	class Class
}

// ErrPattern: a configured pattern is empty or malformed.
var ErrPattern = errors.New("classifier: bad pattern")

// NewClassifier makes a classifier. The error wraps ErrPattern.
func NewClassifier(c ClassifierConfig) (*Classifier, error) {
	k := &Classifier{max: c.MaxBytes}
	for _, set := range []struct {
		class    Class
		patterns []string
	}{{ReadOnly, c.ReadOnly}, {WriteClass, c.Write}, {Destructive, c.Destructive}} {
		for _, p := range set.patterns {
			words := strings.Fields(p)
			if len(words) == 0 {
				return nil, fmt.Errorf("%w for %s: it is empty", ErrPattern, set.class)
			}
			for _, w := range words {
				if err := texts.Check(w); err != nil {
					return nil, fmt.Errorf("%w for %s: %q: %w", ErrPattern, set.class, p, err)
				}
			}
			k.extra = append(k.extra, pattern{words, set.class})
		}
	}
	return k, nil
}

// Classify says what it thinks of a command that a shell would be given.
func (k *Classifier) Classify(command string) Classified {
	limit := k.max
	if limit <= 0 {
		limit = config.ClassifierBytes
	}
	c := &collector{k: k, budget: 4 * limit, parse: 8 * limit}
	text := command
	if len(text) > limit {
		text = text[:limit]
		c.warn(WarnOverlong, fmt.Sprintf("the command is longer than %d bytes", limit))
		c.unparsed("longer than is looked at")
	}
	c.sanitise(text)
	c.script(text, 0)
	return c.result()
}

// ClassifyArgs says what it thinks of a program run without a shell.
func (k *Classifier) ClassifyArgs(argv []string) Classified {
	var b strings.Builder
	for i, a := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString("'" + strings.ReplaceAll(a, "'", `'\''`) + "'")
	}
	return k.Classify(b.String())
}

// match returns the class that the configuration gives the command.
func (k *Classifier) match(words []word) (Class, bool) {
	best, class := 0, ReadOnly
	for _, p := range k.extra {
		if len(p.words) < best || len(p.words) == best && p.class <= class && best > 0 || !p.fits(words) {
			continue
		}
		best, class = len(p.words), p.class
	}
	return class, best > 0
}

func (p pattern) fits(words []word) bool {
	if len(p.words) > len(words) {
		return false
	}
	for i, w := range p.words {
		if words[i].computed && p.class == ReadOnly {
			return false
		}
		if !texts.Match(w, words[i].text) {
			return false
		}
	}
	return true
}
