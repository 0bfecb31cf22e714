package files

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// Bounds of the states that a [dfa] keeps, and of how often it may begin anew
// before it gives up.
const (
	maxStates   = 2048
	maxRestarts = 20
)

// dfa tells which lines a pattern matches: a deterministic automaton whose states
// are made when they are met. It reads each byte once, several times as fast as
// package regexp, which would also have to know where a match begins.
//
// A state is the set of the program's instructions that may come next, among
// them the beginning of the program, and what the character before was. Whether
// an assertion such as \b holds is known with the character after it, so a match
// can become known one character late; a line feed, or the end, is that character
// for the last one of a line.
type dfa struct {
	prog  *syntax.Prog
	next  []int32 // by state and byte: the state after it, or one of those below
	wide  map[wideStep]int32
	ids   map[string]int32
	sets  [][]uint32 // by state: the instructions; flags on the way to them are open
	prev  []before
	match []bool // by state: it is a match already
	start int32

	restarts int
	dead     bool // too many states: use something else

	// scratch
	list  []uint32
	stack []uint32
	seen  []uint32 // generation by instruction
	gen   uint32
	key   []byte
}

type wideStep struct {
	state int32
	r     rune
}

// Values of next that are no state.
const (
	unknown int32 = -1
	matched int32 = -2
)

// before is what was before a state's place.
type before uint8

const (
	lineStart before = iota
	wordChar
	otherChar
)

func newDFA(prog *syntax.Prog) *dfa {
	d := &dfa{prog: prog, seen: make([]uint32, len(prog.Inst))}
	d.restart()
	return d
}

// restart forgets all states.
func (d *dfa) restart() {
	d.next, d.sets, d.prev, d.match = d.next[:0], d.sets[:0], d.prev[:0], d.match[:0]
	d.ids, d.wide = make(map[string]int32), make(map[wideStep]int32)
	d.begin()
	d.close(uint32(d.prog.Start), 0)
	d.start = d.state(lineStart)
}

// find returns the index of a byte in the first line of buf that matches, -1 if
// there is none. buf begins with the begin of a line, and ends with the end of
// one. When it gives up, dead is set.
func (d *dfa) find(buf []byte) int {
	if len(buf) == 0 {
		return -1
	}
	if d.match[d.start>>8] {
		return 0
	}
	s := d.start
	for i := 0; i < len(buf); {
		next := d.next
		for i < len(buf) {
			t := next[int(s)|int(buf[i])]
			if t < 0 {
				break
			}
			s = t
			i++
		}
		if i == len(buf) {
			break
		}
		t, size := d.step(s, buf[i:])
		switch {
		case t == matched:
			return i
		case d.dead:
			return -1
		}
		s = t
		i += size
	}
	if buf[len(buf)-1] != '\n' && d.make(s, '\n') == matched {
		return len(buf) - 1
	}
	return -1
}

// step goes from a state over the character that b begins with.
func (d *dfa) step(s int32, b []byte) (next int32, size int) {
	if b[0] < utf8.RuneSelf {
		if t := d.next[s|int32(b[0])]; t != unknown {
			return t, 1
		}
		return d.make(s, rune(b[0])), 1
	}
	r, size := utf8.DecodeRune(b)
	if t, ok := d.wide[wideStep{s, r}]; ok {
		return t, size
	}
	return d.make(s, r), size
}

// make works out a step and remembers it.
func (d *dfa) make(s int32, r rune) int32 {
	restarts := d.restarts
	t := d.work(s, r)
	switch {
	case d.restarts != restarts: // s is gone
	case r < utf8.RuneSelf:
		d.next[s|r] = t
	case len(d.wide) < 8*maxStates:
		d.wide[wideStep{s, r}] = t
	}
	return t
}

func (d *dfa) work(s int32, r rune) int32 {
	set, prev := d.sets[s>>8], d.prev[s>>8]
	now := otherChar
	if syntax.IsWordChar(r) {
		now = wordChar
	}
	flags := syntax.EmptyNoWordBoundary
	if (prev == wordChar) != (now == wordChar) {
		flags = syntax.EmptyWordBoundary
	}
	if prev == lineStart {
		flags |= syntax.EmptyBeginLine
	}
	if r == '\n' {
		flags |= syntax.EmptyEndLine
	}
	d.begin()
	for _, pc := range set {
		d.close(pc, flags)
	}
	for _, pc := range d.list {
		if d.prog.Inst[pc].Op == syntax.InstMatch {
			return matched
		}
	}
	if r == '\n' {
		return d.start
	}
	from := slices.Clone(d.list)
	d.begin()
	d.close(uint32(d.prog.Start), 0)
	for _, pc := range from {
		if i := &d.prog.Inst[pc]; isRune(i.Op) && i.MatchRune(r) {
			d.close(i.Out, 0)
		}
	}
	t := d.state(now)
	if d.match[t>>8] {
		return matched
	}
	return t
}

func isRune(op syntax.InstOp) bool {
	return op == syntax.InstRune || op == syntax.InstRune1 || op == syntax.InstRuneAny || op == syntax.InstRuneAnyNotNL
}

// begin empties the list of instructions.
func (d *dfa) begin() {
	d.list = d.list[:0]
	d.gen++
}

// close adds what can be reached from an instruction without a character, when
// the flags hold. Assertions that do not are added themselves.
func (d *dfa) close(pc uint32, flags syntax.EmptyOp) {
	d.stack = append(d.stack[:0], pc)
	for len(d.stack) > 0 {
		pc := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if d.seen[pc] == d.gen {
			continue
		}
		d.seen[pc] = d.gen
		switch i := &d.prog.Inst[pc]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			d.stack = append(d.stack, i.Out, i.Arg)
		case syntax.InstCapture, syntax.InstNop:
			d.stack = append(d.stack, i.Out)
		case syntax.InstEmptyWidth:
			if need := syntax.EmptyOp(i.Arg); need&^flags == 0 {
				d.stack = append(d.stack, i.Out)
			} else {
				d.list = append(d.list, pc)
			}
		case syntax.InstFail:
		default:
			d.list = append(d.list, pc)
		}
	}
}

// state returns the state of the list of instructions.
func (d *dfa) state(prev before) int32 {
	slices.Sort(d.list)
	d.key = append(d.key[:0], byte(prev))
	isMatch := false
	for _, pc := range d.list {
		d.key = binary.AppendUvarint(d.key, uint64(pc))
		isMatch = isMatch || d.prog.Inst[pc].Op == syntax.InstMatch
	}
	if id, ok := d.ids[string(d.key)]; ok {
		return id
	}
	if len(d.sets) == maxStates {
		set := slices.Clone(d.list)
		if d.restarts++; d.restarts > maxRestarts {
			d.dead = true
		}
		d.restart()
		d.list = append(d.list[:0], set...)
		return d.state(prev)
	}
	id := int32(len(d.sets)) << 8
	d.ids[string(d.key)] = id
	d.sets = append(d.sets, slices.Clone(d.list))
	d.prev = append(d.prev, prev)
	d.match = append(d.match, isMatch)
	n := len(d.next)
	d.next = slices.Grow(d.next, 256)[:n+256]
	for i := range d.next[n:] {
		d.next[n+i] = unknown
	}
	return id
}
