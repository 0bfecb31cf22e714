package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	kit "github.com/codeagent/sandbox/tests/kit/container"
)

// shipped is the seccomp profile of packaging.
func shipped(t *testing.T) []byte {
	t.Helper()
	profile, err := os.ReadFile("../../../packaging/seccomp.json")
	if err != nil {
		t.Fatal(err)
	}
	return profile
}

// TestJailInContainer: with the profile that the project ships, there is a jail also where the
// container has a user namespace with 65,536 ids, as pods with hostUsers: false have, and
// for root that has the rights for it.
func TestJailInContainer(t *testing.T) {
	profile := shipped(t)
	for name, s := range map[string]kit.Spec{
		"user of 65536 ids":            {UID: 1000, NoNewPrivileges: true, UserNamespace: true},
		"root":                         {Capabilities: []string{"CAP_SYS_ADMIN", "CAP_SYS_PTRACE"}},
		"root of 65536 ids, with FUSE": {UserNamespace: true, FUSE: true, Device: true, Capabilities: []string{"CAP_SYS_ADMIN"}},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Require(t)
			outside := s.UID
			if s.UserNamespace {
				outside += kit.FirstID
			}
			s.Seccomp, s.Unmasked, s.Work, s.Programs = profile, true, work(t, outside), map[string]string{"sandbox": program(t)}
			if err := os.Chmod(filepath.Dir(program(t)), 0o755); err != nil { // root of a user namespace looks itself
				t.Fatal(err)
			}
			out, errs, code := kit.Run(t, s, `cd /work/project && mkdir -p src/deep && echo one >src/deep/one && echo two >two && chmod 640 two &&
				find . | sort >/work/before && sandbox run --isolation jail -- sh -c 'rm -rf * && echo left: $(ls) pid $$' && sandbox undo >/dev/null && find . | sort | cmp /work/before && cat src/deep/one two && stat -c '%a %u' two`)
			if code != 0 || !strings.HasPrefix(out, "left: pid ") || !strings.HasSuffix(out, "\none\ntwo\n640 "+map[bool]string{true: "0", false: "1000"}[s.UID == 0]+"\n") {
				t.Errorf("status %d, %q, %s", code, out, errs)
			}
		})
	}
}

// TestRootMayNotTrace: root that may make namespaces, but has not what it takes to answer the
// calls of another user, is told so. It does not find out command by command.
func TestRootMayNotTrace(t *testing.T) {
	s := spec(t, 0)
	s.Seccomp, s.Unmasked, s.Capabilities = shipped(t), true, []string{"CAP_SYS_ADMIN"}
	out, errs, code := kit.Run(t, s, `cd /work/project && echo two >two && sandbox run --isolation jail --bridge mediated -- rm two; echo $?; cat two`)
	if code != 0 || out != "125\ntwo\n" || !strings.Contains(errs, "--cap-add SYS_PTRACE") {
		t.Errorf("status %d, %q, %s", code, out, errs)
	}
}
