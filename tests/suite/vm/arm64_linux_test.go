package vm

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/guest/image"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/qemu"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestArm64: the image for the other architecture is made here, and boots where
// that is emulated: kernel, modules, program, control channel and the parent of a command.
func TestArm64(t *testing.T) {
	require.Root(t) // in one of CI's passes, which has a compiler
	require.Sometimes(t, 4)
	require.Program(t, "qemu-system-aarch64", "qemu-system-arm")
	require.Program(t, "apt-get", "apt")
	dir := t.TempDir()
	if text, err := exec.Command(drive.Program(t, "sandbox"), "guest", "build", "--arch", "arm64", "--image-dir", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	i, err := image.Open(dir, "arm64")
	check(t, err)
	if i.Manifest.Applets < 200 {
		t.Errorf("%d programs", i.Manifest.Applets)
	}
	program := filepath.Join(dir, "sandbox-guest")
	build := exec.Command("go", "build", "-o", program, "github.com/codeagent/sandbox/cmd/sandbox-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=arm64")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	guest, err := os.ReadFile(program)
	check(t, err)
	source := image.Source{Dir: dir, Arch: "arm64", Guest: guest}
	g, err := qemu.New(qemu.Options{
		VM: hypervisor.VM{Accel: "tcg", BootTimeout: patience, MemoryBytes: 256 << 20}, Arch: "arm64",
		Image: func(context.Context) (qemu.Image, error) {
			f, err := source.Open()
			return qemu.Image{Kernel: f.Kernel, Initrd: f.Initrd}, err
		},
	}).Start(t.Context(), hypervisor.Config{SessionID: "arm64", UID: -1, GID: -1})
	check(t, err)
	r, w, err := os.Pipe()
	check(t, err)
	p, err := g.Exec(t.Context(), hypervisor.Command{ID: 1, Argv: []string{"sh", "-c", "uname -m; cat /proc/$PPID/comm; exit 9"}, Dir: "/", Stdout: w, Stderr: w})
	check(t, err)
	st, err := p.Wait(t.Context())
	check(t, err)
	w.Close()
	if out, err := io.ReadAll(r); st.Code != 9 || err != nil || string(out) != "aarch64\nsandbox-guest\n" {
		t.Errorf("%+v, %v: %q", st, err, out)
	}
	check(t, g.Stop(t.Context()))
}
