package vm

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codeagent/sandbox/guest/image"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestGuestBuild: an ordinary user makes the image; the same packages give the same
// bytes; what is whole is left alone.
func TestGuestBuild(t *testing.T) {
	require.Ordinary(t)
	require.Program(t, "apt-get", "apt")
	other, err := image.Open(guestimage.Dir(t), "amd64")
	check(t, err)
	dir := t.TempDir()
	build := func() (built bool) {
		t.Helper()
		cmd := exec.Command(drive.Program(t, "sandbox"), "guest", "build", "--arch", "amd64", "--image-dir", dir, "--json")
		var out struct{ Built bool }
		var said bytes.Buffer
		cmd.Stderr = &said
		text, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, said.String())
		}
		check(t, json.Unmarshal(text, &out))
		return out.Built
	}
	if !build() || build() {
		t.Error("it was not built once")
	}
	i, err := image.Open(dir, "amd64")
	check(t, err)
	if d := cmp.Diff(other.Manifest.Files, i.Manifest.Files); d != "" && cmp.Equal(other.Manifest.Sources, i.Manifest.Sources) {
		t.Errorf("built twice, two images: %s", d)
	}
	// Whoever hands the image on owes these; a kernel is signed by another source package than the one that it is built of.
	for _, name := range []string{"linux=", "busybox=", "glibc="} {
		if !slices.ContainsFunc(i.Manifest.BuiltFrom, func(s string) bool { return strings.HasPrefix(s, name) }) {
			t.Errorf("it does not say that it was built from %s: %q", name, i.Manifest.BuiltFrom)
		}
	}
}
