package hypervisor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// The bridges of a virtual machine: the words of --fs-backend.
const (
	BridgeVirtioFS Bridge = "virtiofs"
	Bridge9P       Bridge = "9p"
)

// Setup is one way to run commands: an isolation, by the word of --isolation, and the bridge by which it reaches the folders.
type Setup struct {
	Isolation string
	Bridge    Bridge
}

// Setups are all that there are, in the order of [Feature].On. Of one isolation the first is taken if nothing that is asked for decides.
func Setups() []Setup {
	return []Setup{
		{"jail", BridgeMediated}, {"jail", BridgeFUSE}, {"landlock", BridgeMediated}, {"vm", BridgeVirtioFS}, {"vm", Bridge9P}, {"none", BridgeFUSE},
	}
}

// setups is how many there are.
const setups = 6

// Answer says whether a setup has a feature. The zero value is no, without a reason.
type Answer struct {
	Has bool
	// Text is the condition under which the setup has it, or why it has not; empty: there is nothing to say.
	Text string
	// Laxer: commands could do more without it than whoever asks for it wants, and nobody's wish for it is left out.
	Laxer bool
}

// Wish is how somebody asks for a feature.
type Wish struct {
	// Flag is without its dashes, and Key a key of the configuration. Flag is empty if there is none.
	Flag, Key string
	// Values are those by which the feature is asked for; nil: by each that is not zero, false or empty.
	Values []string
}

// Feature is something that a session can have or lack, according to its [Setup].
type Feature struct {
	// Name is a word or two, unique, and What says in one line what it is.
	Name, What string
	// Wishes are how it is asked for; none: the setup alone decides.
	Wishes []Wish
	// Tuning: the wishes are about an isolation that may be another session's. A file of the configuration may have them for that one.
	Tuning bool
	// Of is the configuration key of another wish without which this one has no use: where that is left out, so is this.
	Of string
	// Late: who makes the session asks [Lacks] when it starts. [Choose] is not asked about it.
	Late bool
	// On are the answers, in the order of [Setups].
	On [setups]Answer
}

// Find returns the feature of that name. It is the table's own: nobody changes it.
func Find(name string) (Feature, bool) { return find(table(), name) }

// table is [Features] for who only reads it: each start asks it some dozen times.
var table = sync.OnceValue(Features)

func find(all []Feature, name string) (Feature, bool) {
	i := slices.IndexFunc(all, func(f Feature) bool { return f.Name == name })
	if i < 0 {
		return Feature{}, false
	}
	return all[i], true
}

// In returns the answer of a setup; no, if there is no such setup.
func (f Feature) In(s Setup) Answer {
	if i := slices.Index(Setups(), s); i >= 0 {
		return f.On[i]
	}
	return Answer{}
}

// Lacks reports whether no setup of the isolation has the feature, and why. It denies nothing of an isolation or a feature that it does not know.
func Lacks(isolation, feature string) (why string, lacks bool) {
	f, ok := Find(feature)
	for _, s := range of(isolation) {
		a := f.In(s)
		if a.Has {
			return "", false
		}
		why, lacks = a.Text, ok
	}
	return why, lacks
}

// Instead says, as flags, which isolation has a feature that this one lacks, and with which bridge if not each of its bridges has it: "--isolation jail".
// It is empty if none has it.
func Instead(isolation, feature string) string {
	f, _ := Find(feature)
	for _, s := range Setups() {
		switch {
		case !f.In(s).Has || s.Isolation == "none": // none is never advised
		case s.Isolation == isolation:
			return bridgeFlag(s)
		case len(having(of(s.Isolation), f)) < len(of(s.Isolation)):
			return "--isolation " + s.Isolation + " with " + bridgeFlag(s)
		default:
			return "--isolation " + s.Isolation
		}
	}
	return ""
}

// of are the setups of an isolation.
func of(isolation string) []Setup {
	return slices.DeleteFunc(Setups(), func(s Setup) bool { return s.Isolation != isolation })
}

// Asker is who asks for a feature. A later one is stronger.
type Asker int

// The askers.
const (
	// ByDefault: the program's own defaults.
	ByDefault Asker = iota
	// ByFile: a file of the configuration, which is for all sessions.
	ByFile
	// ByRequest: a frontend's request for this session, whose client need not know which isolation it gets.
	ByRequest
	// ByFlag: the command line, for this session.
	ByFlag
	// ByLock: a file of the organisation's that locks it.
	ByLock
)

// Ask is what somebody asks for.
type Ask struct {
	// Feature is its name, and Key the key of the configuration that is set.
	Feature, Key string
	// Said is how it was asked for, as people read it: "--mode dynamic"; and Drop what would not be said then: "--mode dynamic", "jail.mode"; empty: what was said.
	Said, Drop string
	By         Asker
	// Usual: it is what holds by default, too.
	Usual bool
}

// Choice is which setups are left, and what is left out in them.
type Choice struct {
	// Setups are those of the isolation that have everything that is asked for and not left out, one at least.
	Setups []Setup
	// Left are the asks that none of them can fulfil.
	Left []Left
}

// Left is an ask that is left out.
type Left struct {
	Ask
	// Why says what the setup has instead, or why it has not what was asked for.
	Why string
	// Silent: nobody misses it: it is the default, or for sessions of another isolation.
	Silent bool
	// Here is the isolation.
	Here string
}

func (l Left) String() string {
	return l.Said + " has no effect with --isolation " + l.Here + ": " + l.Why
}

// Refusal is an ask that cannot be fulfilled and is not left out.
type Refusal struct {
	Ask
	// Needs is what would fulfil it, as flags: "--isolation jail, or vm"; empty if nothing does.
	Needs string
	// Here is what it would be instead, and Why what is lacking there.
	Here, Why string
	// Tuning is [Feature].Tuning.
	Tuning bool
}

func (r *Refusal) Error() string {
	if r.Needs == "--isolation vm" && r.Tuning {
		return fmt.Sprintf("%s is about a virtual machine, and here it would be %s: add %s, or leave it out", r.Said, r.Here, r.Needs)
	}
	text := r.Said
	if r.Needs != "" {
		text += " needs " + r.Needs + ", and here it would be " + r.Here
	} else {
		text += " cannot be had with " + r.Here
	}
	if r.Why != "" {
		text += ": " + r.Why
	}
	text += "; leave "
	if r.Drop == "" {
		text += "it out"
	} else {
		text += "out " + r.Drop
	}
	switch {
	case strings.HasPrefix(r.Needs, "--isolation"):
		text += ", or use " + r.Needs
	case r.Needs != "":
		text += ", or take " + r.Needs
	}
	return text
}

// Choose says which setups of the isolation fulfil what is asked for. The error is a [*Refusal], unless there is no such isolation. It is the one rule for what cannot be had:
//
//   - A default is left out.
//   - What a flag asks for, or what the organisation locks, is refused.
//   - What a file or a request asks for is left out if commands can do less without it, or the same; with a note, but for what a file says of sessions of
//     another isolation, or says as it is by default. If commands could do more without it ([Answer].Laxer), it is refused; only a file's wishes about other sessions ([Feature].Tuning) are not.
//
// The strongest ask chooses first, and among equals the one that stands first in [Features].
func Choose(isolation string, asks []Ask) (Choice, error) {
	c := Choice{Setups: of(isolation)}
	if len(c.Setups) == 0 {
		return c, fmt.Errorf("there is no isolation %q", isolation)
	}
	asks, all := slices.Clone(asks), table()
	slices.SortStableFunc(asks, func(a, b Ask) int { return cmp.Compare(b.By, a.By) })
	var granted []Feature
	for _, ask := range asks {
		f, ok := find(all, ask.Feature)
		if !ok || f.Late {
			continue
		}
		can := having(c.Setups, f)
		if len(can) > 0 {
			c.Setups, granted = can, append(granted, f)
			continue
		}
		var lack Answer
		for _, s := range c.Setups {
			lack = f.In(s)
		}
		if ask.By >= ByFlag || lack.Laxer && (ask.By == ByRequest || ask.By == ByFile && !f.Tuning) {
			return Choice{}, refuse(ask, f, granted, isolation, c.Setups)
		}
		c.Left = append(c.Left, Left{Ask: ask, Here: isolation, Why: lack.Text, Silent: ask.By == ByDefault || ask.By == ByFile && (f.Tuning || ask.Usual)})
	}
	c.Left = append(c.Left, useless(all, asks, c.Left)...)
	return c, nil
}

// useless are the asks, but those by flags, for what has no use without something that is left out.
func useless(all []Feature, asks []Ask, left []Left) (more []Left) {
	for _, ask := range asks {
		f, ok := find(all, ask.Feature)
		if !ok || f.Of == "" || ask.By >= ByFlag || slices.ContainsFunc(left, func(l Left) bool { return l.Key == ask.Key }) {
			continue
		}
		if i := slices.IndexFunc(left, func(l Left) bool { return l.Key == f.Of }); i >= 0 {
			more = append(more, Left{Ask: ask, Here: left[i].Here, Why: left[i].Why, Silent: left[i].Silent || ask.By == ByFile})
		}
	}
	return more
}

// having are those setups that have the feature.
func having(list []Setup, f Feature) []Setup {
	return slices.DeleteFunc(slices.Clone(list), func(s Setup) bool { return !f.In(s).Has })
}

// refuse says why an ask cannot be fulfilled, and what could.
func refuse(ask Ask, f Feature, granted []Feature, isolation string, now []Setup) *Refusal {
	r := &Refusal{Ask: ask, Here: isolation, Why: f.In(now[0]).Text, Tuning: f.Tuning}
	if same := having(of(isolation), f); len(same) > 0 { // an ask before it has chosen another bridge
		r.Here, r.Needs, r.Tuning = string(now[0].Bridge), bridgeFlag(same[0]), false
		return r
	}
	var words, others []string
	for _, other := range []string{"jail", "landlock", "vm"} { // none is never advised
		can := having(of(other), f)
		if len(can) == 0 {
			continue
		}
		both := can
		for _, g := range granted {
			both = having(both, g)
		}
		if len(both) == 0 {
			others = append(others, other+" with "+bridgeFlag(can[0]))
			continue
		}
		words = append(words, other)
	}
	if len(words) == 0 {
		words = others
	}
	if len(words) > 0 {
		r.Needs = "--isolation " + strings.Join(words, ", ")
		if n := len(words); n > 1 {
			r.Needs = "--isolation " + strings.Join(words[:n-1], ", ") + ", or " + words[n-1]
		}
	}
	return r
}

// bridgeFlag is the flag that asks for a setup's bridge.
func bridgeFlag(s Setup) string {
	if s.Isolation == "vm" {
		return "--fs-backend " + string(s.Bridge)
	}
	return "--bridge " + string(s.Bridge)
}
