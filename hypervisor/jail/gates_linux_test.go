package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/guest/script"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
)

// TestWays: the supervisor is handed what can be written behind a gate, and nothing else; over FUSE nothing.
func TestWays(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gate/work", "gate/kept", "gate/shown", "gated", "work"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cfg := hypervisor.Config{UID: -1, GID: -1, Jail: hypervisor.Jail{Gates: []string{dir + "/gate", dir + "/gated"}, Show: []string{dir + "/gate/shown"}}}
	for _, name := range []string{"gate/work", "work"} {
		cfg.Shares = append(cfg.Shares, hypervisor.Share{HostPath: filepath.Join(dir, name)})
	}
	u, err := chooseAccount(cfg.UID, cfg.GID)
	if err != nil {
		t.Fatal(err)
	}
	table := []places.MountEntry{{Dev: "8:1", Root: "/", Point: "/"}}
	for mediated, want := range map[bool][]string{true: {dir + "/gate/work"}, false: nil} {
		p, _, err := makePlan(cfg, u, table, mediated, "", nil)
		if err != nil || !slices.Equal(p.ways, want) {
			t.Errorf("mediated %v: %q, %v", mediated, p.ways, err)
		}
	}
	for i := range wayByte {
		cfg.Gates = append(cfg.Gates, fmt.Sprintf("%s/many/%d", dir, i))
	}
	if _, _, err := makePlan(cfg, u, table, true, "", nil); err == nil || !strings.Contains(err.Error(), "at most 253") {
		t.Errorf("more gates than can be told apart: %v", err)
	}
}

// TestNothingMadeInGates: no directory is made where a gate would be asked about it for nothing, but in what is mounted below one.
func TestNothingMadeInGates(t *testing.T) {
	gate := t.TempDir()
	if err := os.Mkdir(gate+"/in", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := script.Run(0, nil, func(w *script.Writer) {
		v := &viewWriter{Writer: w, plan: &plan{}, made: []mount{{op: opShare, path: gate, gate: true, readOnly: true}, {op: opTmpfs, path: gate + "/in"}}}
		v.makeDirs("making directories", gate+"/in/new")
		v.makeDirs("making directories", gate+"/none")
	}); err != nil {
		t.Fatal(err)
	}
	if !exists(gate+"/in/new") || exists(gate+"/none") {
		t.Errorf("below the gate's mount: %v, in the gate: %v", exists(gate+"/in/new"), exists(gate+"/none"))
	}
}

// TestOuterGatesFirst: gates come first, but not before what they lie in; all else comes after what is around it.
func TestOuterGatesFirst(t *testing.T) {
	p := planner{out: []mount{
		{op: opDev, path: "/dev"}, {op: opTmpfs, path: "/opt/sdk/tmp"}, {op: opTmpfs, path: "/tmp"},
		{op: opShare, path: "/dev/x", gate: true}, {op: opShare, path: "/opt", gate: true}, {op: opShare, path: "/opt/sdk", gate: true},
	}}
	p.sortOuter()
	var got []string
	for _, m := range p.out {
		got = append(got, m.path)
	}
	if want := []string{"/opt", "/dev", "/tmp", "/dev/x", "/opt/sdk", "/opt/sdk/tmp"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
