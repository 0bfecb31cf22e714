package wine_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/wine"
)

// What wine 10 lacks, and Windows has.
const (
	noSymlinks = "wine: it makes no symlinks and does not read ours"
	noUnix     = "wine: it has no AF_UNIX"
	noAdapters = "wine: GetAdaptersAddresses says ERROR_INVALID_DATA"
)

// What is not there on Windows either.
const (
	noTools  = "no go, git or sh to compare with"
	oneError = "Go has one number there for ENOTDIR and for a path that does not exist"
	names    = "the test makes files with names that Windows does not have"
	paths    = "the test's paths are those of Linux"
)

// packages are those whose tests run, with the tests that fail and why.
var packages = map[string]map[string]string{
	"actors/approval": {
		"TestBadFiles": noSymlinks, "TestFilesThatAreNotTrusted": noSymlinks,
	},
	"actors/frontend":                  {"TestFindFolder": noSymlinks, "TestCommandDirectory": noSymlinks},
	"actors/frontend/control":          {"TestErrorsKeepTheirIdentity": oneError},
	"actors/machine":                   nil,
	"actors/session":                   nil,
	"actors/step":                      nil,
	"cmd/sandbox/internal/agents":      {"TestEditFollowsSymlinks": noSymlinks, "TestTheCommandIsOneWord": noTools},
	"cmd/sandbox/internal/config":      {"TestProjectFileIsNotFollowed": noSymlinks},
	"cmd/sandbox/internal/configure":   {"TestText": noSymlinks},
	"cmd/sandbox/internal/console":     nil,
	"cmd/sandbox/internal/launch":      {"TestWeakerFileIsRefused": paths, "TestGroups": paths},
	"cmd/sandbox/internal/stepline":    nil,
	"fsbridge":                         nil,
	"fsbridge/hostfs":                  nil,
	"fsbridge/hostfs/posix":            nil,
	"fsbridge/ninep":                   nil,
	"fsbridge/posixmeta":               nil,
	"fsbridge/shellquote":              {"TestWordsShell": noTools},
	"fsbridge/texts":                   {"TestUnifiedNames": names},
	"fsbridge/undolog":                 nil,
	"fsbridge/undolog/internal/format": nil,
	"fsbridge/undolog/internal/stamps": nil,
	"fsbridge/undolog/internal/store":  nil,
	"fsbridge/vfs":                     nil,
	"guest/control":                    nil,
	"guest/image":                      nil,
	"hypervisor/agents":                {"TestW10Queue": noUnix},
	"hypervisor/cable":                 nil,
	"hypervisor/network/policy":        {"TestBroadcastIsTheHosts": noAdapters},
	"messages/lexical":                 nil,
	"messages/logctx":                  nil,
	"tests/suite/winprobe":             nil, // it has a list of its own
	"supervision":                      nil,
}

// everything is the variable that has all tests run, if it is "all", and not only those of each time.
const everything = "TEST_WINE"

// daily are the packages that are tested each time.
var daily = []string{"actors/frontend/control", "fsbridge/hostfs", "fsbridge/hostfs/posix", "fsbridge/ninep", "guest/image", "tests/suite/winprobe"}

// limit is how long the tests of one package may take: a machine that is slow, and has others at work, needs a minute. Those of the log need ten
// times as long, although they try only a part of their tables (require.Thin): each call on a file is a message to wine's server.
const limit = 5 * time.Minute

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output string }

func TestPackages(t *testing.T) {
	chosen, limit := daily, limit
	if os.Getenv(everything) == "all" {
		limit *= 10
		chosen = slices.Sorted(maps.Keys(packages))
	}
	ended, said := goTest(t, limit, chosen)
	for _, p := range chosen {
		for test, why := range packages[p] {
			if action := ended[p][test]; action != "fail" {
				t.Errorf("%s: %s is on the list of what fails (%s), and did not: %q", p, test, why, action)
			}
		}
		check(t, p, ended[p], said, packages[p])
	}
}

// TestFaults has the log fail, and its process killed, at its fault points.
func TestFaults(t *testing.T) {
	const log = "fsbridge/undolog"
	if os.Getenv(everything) != "all" {
		t.Logf("%s=all has it done", everything)
		return
	}
	files, err := filepath.Glob("../../../" + log + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(b), "//go:build faults\n") {
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(b), -1) {
				names = append(names, m[1])
			}
		}
	}
	ended, said := goTest(t, 10*limit, []string{log}, "-tags=faults", "-run=^("+strings.Join(names, "|")+")$")
	for _, name := range names {
		if ended[log][name] == "" {
			t.Errorf("%s did not run", name)
		}
	}
	check(t, log, ended[log], said, nil)
}

// goTest runs the tests of packages that are built for Windows.
func goTest(t *testing.T, limit time.Duration, packages []string, flags ...string) (map[string]ends, map[string]string) {
	t.Helper()
	wine.New(t, wine.Options{}) // the bed is made here, or the reason is told why there is none
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	launcher := filepath.Join(t.TempDir(), "wine")
	build := exec.Command("go", "build", "-o", launcher, "./tests/cmd/wine")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	// The tests end themselves, with their stacks; a minute later whoever runs them does, whatever hangs in them.
	args := append([]string{"test", "-json", "-vet=off", "-count=1", "-timeout=" + limit.String(), "-ldflags=-s -w",
		"-exec", launcher + " -limit " + (limit + time.Minute).String()}, flags...)
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0", "RAPID_CHECKS=5", "TEST_SAMPLE=1", "CI=") // what the machine lacks is skipped, and the list says so
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, _ := cmd.Output() // an error says that tests failed, and some do
	ended, said := results(t, out)
	for _, p := range packages {
		if ended[p] == nil {
			t.Errorf("%s: none of its tests ran\n%s%s", p, said[p], stderr.Bytes())
		}
	}
	return ended, said
}

// check says which tests of a package failed that are not on the list of those that do.
func check(t *testing.T, p string, ended ends, said, list map[string]string) {
	t.Helper()
	for test, action := range ended {
		switch {
		case action == "run":
			t.Errorf("%s: %s did not end\n%s%s", p, test, said[p+"."+test], said[p])
		case action == "fail" && test != "" && list[test] == "":
			t.Errorf("%s: %s failed\n%s", p, test, said[p+"."+test])
		}
	}
	if ended[""] == "fail" && !slices.Contains(slices.Collect(maps.Values(ended.tests())), "fail") {
		t.Errorf("%s: ended before its tests\n%s", p, said[p])
	}
}

// results returns how each test that is no part of another ended, by package, or "run" if it did not; the package's own end has the name "". And what each said.
func results(t *testing.T, out []byte) (ended map[string]ends, said map[string]string) {
	t.Helper()
	ended, said = map[string]ends{}, map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("go test: %s", lines.Bytes())
		}
		p := strings.TrimPrefix(e.Package, "github.com/codeagent/sandbox/")
		test, _, part := strings.Cut(e.Test, "/")
		switch e.Action {
		case "output":
			said[strings.TrimSuffix(p+"."+test, ".")] += e.Output
		case "run", "pass", "fail", "skip":
			if part {
				continue
			}
			if ended[p] == nil {
				ended[p] = ends{}
			}
			ended[p][test] = e.Action
		}
	}
	return ended, said
}

// ends says how tests ended.
type ends map[string]string

func (e ends) tests() map[string]string {
	tests := maps.Clone(e)
	delete(tests, "")
	return tests
}
