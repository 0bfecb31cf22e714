package filters

// unchanged leaves the owner, or the group, of a file as it is (-1).
const unchanged = 1<<32 - 1

// aloneRules refuses, in a namespace in which nobody but this user has a number, to give files to others. It is what a user
// is told outside (EPERM), and what programs go on with; the kernel would say that there is no such number (EINVAL).
func aloneRules(m map[uint32]rule, self IDs) {
	for _, c := range []struct {
		call       string
		owner, grp uint32 // the arguments
	}{
		{"chown", offArg1, offArg2}, {"lchown", offArg1, offArg2}, {"fchown", offArg1, offArg2}, {"fchownat", offArg2, offArg3},
	} {
		nr, ok := numberOf(c.call)
		if !ok {
			continue // this architecture does not have it
		}
		group := onlyIf(c.grp, retPerm, self.GID, unchanged)
		r := onlyIf(c.owner, retPerm, self.UID, unchanged)
		r.then = &group
		m[nr] = r
	}
}
