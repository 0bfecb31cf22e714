package require

import (
	"hash/fnv"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/cmd/asuser/user"
)

// OtherPass starts the reason of a skip that is no loss, because the test runs
// in the pass of the other user. tests/cmd/tally looks for it.
const OtherPass = "runs in the other pass: "

// OtherCommit starts the reason of a skip that is no loss, because the test runs with other commits.
const OtherCommit = "runs with another commit: "

// userPass reports whether the same tests run as root as well.
func userPass() bool { return os.Getenv(user.PassEnv) != "" }

// CI reports whether everything must be there.
func CI() bool {
	v := os.Getenv("CI")
	return v != "" && v != "0" && v != "false"
}

// Tries returns how often a test of a race tries: few, or what SANDBOX_RACES says, as make soak does.
func Tries(t testing.TB, few int) int {
	t.Helper()
	text := os.Getenv("SANDBOX_RACES")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("SANDBOX_RACES=%q: want how often a race is tried, 40000 for example", text)
	}
	return n
}

// Fewer returns how many of many a test makes that counts on it that they are many: a quarter with the race detector, to which the
// first ones show what the others would.
func Fewer(many int) int {
	if Race {
		return many / 4
	}
	return many
}

// Sampled tells whether only a part of many cases of one kind is tried: see [OneIn].
func Sampled() bool {
	text := os.Getenv("TEST_SAMPLE")
	return text != "" && text != "all"
}

// OneIn returns a function that says of one case after the other whether it is tried: of n of a kind one, and all of them
// without TEST_SAMPLE. tests/run.sh sets that to a number that comes from the commit, so that each commit tries others, and one
// commit always the same.
func OneIn(t testing.TB, n int) func() bool {
	t.Helper()
	if !Sampled() {
		return func() bool { return true }
	}
	text := os.Getenv("TEST_SAMPLE")
	next, err := strconv.Atoi(text)
	if err != nil || next < 0 {
		t.Fatalf("TEST_SAMPLE=%q: want a number, or all", text)
	}
	t.Logf("one case in %d is tried: TEST_SAMPLE=%d", n, next)
	return func() bool {
		next++
		return next%n == 0
	}
}

// Few tells whether a case of a table is tried. On Windows, if [Sampled], it is one in n, as the tests run by wine there, where each call on a file is a
// message to another process. By their names they are spread over the table, and the same each time. Elsewhere it is each.
func Few(t testing.TB, name string, n uint32) bool {
	t.Helper()
	if runtime.GOOS != "windows" || !Sampled() {
		return true
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.Name() + name))
	return h.Sum32()>>8%n == 0
}

// Thin ends this case of a table unless it is of the few that are tried: see [Few].
func Thin(t testing.TB, n uint32) {
	t.Helper()
	if !Few(t, "", n) {
		t.Skipf("one case in %d is tried here", n)
	}
}

// Sometimes ends the test unless it is the turn of this commit: see [OneIn].
func Sometimes(t testing.TB, n int) {
	t.Helper()
	if !OneIn(t, n)() {
		t.Skipf("%sone in %d has it, and TEST_SAMPLE=all", OtherCommit, n)
	}
}

// Turn returns a function that says of one case after the other whether this pass tries it, of cases that run as root and as an
// ordinary user: root's pass has every second one, and the user's pass the others. Which ones that are the commit says, as for [OneIn];
// without TEST_SAMPLE each pass has all.
func Turn(t testing.TB) func() bool {
	t.Helper()
	turn := OneIn(t, 2)
	if userPass() {
		turn()
	}
	return turn
}

// Missing ends the test because what is missing, and says how to get it.
func Missing(t testing.TB, what, how string) {
	t.Helper()
	if CI() {
		t.Fatalf("CI must provide %s: %s", what, how)
	}
	t.Skipf("needs %s: %s", what, how)
}

// Root ends the test unless it runs as root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if userPass() {
		t.Skip(OtherPass + "needs root")
	}
	Missing(t, "root", "run it as root, for instance with sudo")
}

// Ordinary ends the test unless it runs as an ordinary user.
func Ordinary(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	t.Skip(OtherPass + "needs an ordinary user: tests/run.sh runs it so, or run it without sudo")
}

// Program returns the path of a program, which the named Debian package has.
func Program(t testing.TB, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		for _, dir := range strings.Fields("/usr/sbin /sbin") { // not in an ordinary user's PATH
			if p, err := exec.LookPath(dir + "/" + name); err == nil {
				return p
			}
		}
		Missing(t, "the program "+name, "apt-get install "+debianPackage)
	}
	return path
}
