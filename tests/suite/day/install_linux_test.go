package day

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// What `go install` puts into the home directory is there for later commands, and for the host when it is applied.
func TestD8Install(t *testing.T) {
	require.Program(t, "go", "golang")
	s := drive.New(t, func(t testing.TB, root string) {
		for name, text := range map[string]string{
			"go.mod":  "module example.com/tool\n\ngo 1.21\n",
			"main.go": "package main\n\nfunc main() { println(\"installed\") }\n",
		} {
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
	s.Vars = []string{"GOFLAGS=-mod=mod", "GOPROXY=off", "GOTOOLCHAIN=local", "GOENV=off"}
	bin := filepath.Join(s.State, "home", "go", "bin")
	tool := filepath.Join(bin, "tool")
	s.Must(t, "run", "--", "go", "install", ".") // it compiles the runtime
	if r := s.Must(t, "run", "--", tool); r.Stderr != "installed\n" {
		t.Errorf("the program prints %q", r.Stderr)
	}
	if _, err := os.Lstat(tool); err == nil {
		t.Error("the host has it")
	}
	s.Must(t, "overlay", "apply", bin)
	if info, err := os.Lstat(tool); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("after it was applied: %v, %v", info, err)
	}
}
