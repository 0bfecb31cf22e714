package filters

import "slices"

// auditArch32 is AUDIT_ARCH_I386: what makes its calls as i386 does, whatever it is.
const auditArch32 = 0x40000003

// Programs32bit reports whether there is a filter for programs of 32 bits on this processor.
const Programs32bit = len(numbers32) > 0

// rules32bit says what happens to each call of i386: what happens to the call of that name, or to the one that it is like. A call that is in no list is [Unknown].
func rules32bit(s Settings) map[uint32]rule {
	native := rules(s)
	m := make(map[uint32]rule, len(numbers32))
	for _, n := range numbers32 {
		name := n.name
		if as, ok := alike[name]; ok {
			name = as
		}
		nr, both := numberOf(name)
		family, listed := familyOf(name)
		switch r, ruled := native[nr]; {
		case n.name == "socketcall":
			// The family is in memory, so none can be let through: a socket can be had by socket(2).
			m[n.nr] = oneOf(offArg0, retNoFam, socketcallSocket)
		case slices.Contains(owned, n.name):
			m[n.nr] = rule{ret: retAllow}
		case both && ruled:
			m[n.nr] = r
		case listed && family.Verdict != Conditional:
			m[n.nr] = rule{ret: family.Verdict.returns()}
		}
	}
	return m
}

// denied32bit are the numbers of i386's calls that are like one of these.
func denied32bit(names []string) (out []uint32) {
	for _, n := range numbers32 {
		name := n.name
		if as, ok := alike[name]; ok {
			name = as
		}
		if slices.Contains(names, name) {
			out = append(out, n.nr)
		}
	}
	return out
}
