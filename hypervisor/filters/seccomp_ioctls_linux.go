package filters

import (
	"slices"

	"golang.org/x/sys/unix"
)

// retNotty is what a file answers that does not know a request.
const retNotty = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOTTY)

// ioctlRule allows the requests of the list. Devices and file systems have thousands of requests; those of a file system change files, or lock them, for
// whoever owns them, through any descriptor, whatever the view says. The kernel looks at the low word only, so we do.
func ioctlRule(s Settings) rule {
	r := rule{off: offArg1, ret: retPerm, rest: retNotty}
	for q := range Requests() {
		if s.Containers || !q.Containers {
			r.tests = append(r.tests, ruleTest{code: bpfJeq, k: q.Number, ret: retAllow})
		}
	}
	for _, q := range refusedRequests {
		r.tests = append(r.tests, ruleTest{code: bpfJeq, k: q.Number})
	}
	r.tests = append(r.tests, driverTests(s.Drivers)...)
	return r
}

// driverTests allow the requests to devices of these drivers. They come after what is refused whatever it is asked of.
func driverTests(names []string) (tests []ruleTest) {
	for _, d := range drivers {
		if !slices.Contains(names, d.name) {
			continue
		}
		for _, r := range d.requests {
			tests = append(tests, ruleTest{code: bpfJeq, mask: r.mask, k: r.number, ret: retAllow})
		}
	}
	return tests
}
