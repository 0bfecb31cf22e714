package main

import (
	"debug/buildinfo"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

// TestThirdPartyList compares docs/third-party.md with the modules that are
// linked into the programs, and with go.mod.
func TestThirdPartyList(t *testing.T) {
	module := drive.Module(t)
	doc, err := os.ReadFile(filepath.Join(module, "docs", "third-party.md"))
	if err != nil {
		t.Fatal(err)
	}
	inPrograms, inTests, ok := strings.Cut(string(doc), "## In tests and tools only")
	if !ok {
		t.Fatal("docs/third-party.md has not its two lists")
	}
	licences := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\S+\.\S+) \| (.+) \|$`).FindAllStringSubmatch(inPrograms, -1) {
		licences[m[1]] = m[2]
	}
	guest := os.Getenv("JAIL_TEST_GUEST")
	if guest == "" {
		guest = filepath.Join(module, "cmd", "sandbox", "internal", "launch", "embed", "sandbox-guest-"+runtime.GOARCH)
	}
	for _, program := range []string{drive.Program(t, "sandbox"), guest} {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		for _, dep := range info.Deps {
			if licences[dep.Path] == "" {
				t.Errorf("%s is linked into %s, but is not in docs/third-party.md", dep.Path, filepath.Base(program))
			}
		}
	}
	if len(licences) < 10 {
		t.Errorf("the list has %d modules", len(licences))
	}
	gomod, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\| (\S+\.\S+) \|`).FindAllStringSubmatch(inPrograms+inTests, -1) {
		if !strings.Contains(string(gomod), m[1]+" v") {
			t.Errorf("%s is in docs/third-party.md, but not in go.mod", m[1])
		}
	}
}
