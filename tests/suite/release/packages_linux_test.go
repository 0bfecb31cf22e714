package release

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/guest/image"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// nfpm is what makes packages within the GoReleaser that the Makefile names.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2"

// description is the packages' part of .goreleaser.yaml as nfpm reads it.
func description(t *testing.T, program string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(module, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(text), "\nnfpms:\n  - ")
	block, _, end := strings.Cut(block, "\n\nsboms:")
	if !ok || !end {
		t.Fatal(".goreleaser.yaml has no nfpms, or no sboms after them")
	}
	var out strings.Builder
	fmt.Fprintf(&out, "version: 1.2.3\narch: %s\nplatform: linux\n", runtime.GOARCH)
	for line := range strings.Lines("    " + block + "\n") {
		line = strings.TrimPrefix(line, "    ")
		line = strings.Replace(line, "{{ .Env.DATE }}", "2026-01-02T03:04:05Z", 1)
		switch key, value, _ := strings.Cut(line, ":"); key {
		case "formats", "bindir": // GoReleaser's own
			if key == "bindir" && strings.TrimSpace(value) != "/usr/bin" {
				t.Errorf("bindir is %s", value)
			}
		case "package_name":
			out.WriteString("name:" + value)
		case "contents":
			out.WriteString(line)
			fmt.Fprintf(&out, "  - {src: %q, dst: /usr/bin/sandbox, file_info: {mode: 0755}}\n", program)
		default:
			out.WriteString(line)
		}
	}
	return out.String()
}

// stage is a directory with all files that the description names.
func stage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, module, nil, "make", "--no-print-directory", "extras", "EXTRAS="+filepath.Join(dir, "bin", "extras"), "PROGRAM="+drive.Program(t, "sandbox"))
	if err := os.CopyFS(filepath.Join(dir, "packaging"), os.DirFS(filepath.Join(module, "packaging"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"LICENSE-APACHE", "LICENSE-MIT"} {
		text, err := os.ReadFile(filepath.Join(module, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // only ends what hangs
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// packager returns the path of nfpm. Without a network the module cache may have it.
func packager(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	cache := strings.TrimSpace(run(t, module, nil, "go", "env", "GOMODCACHE"))
	for _, env := range [][]string{{}, {"GOSUMDB=off", "GOPROXY=file://" + filepath.Join(cache, "cache", "download")}} {
		cmd := exec.Command("go", "install", nfpm)
		cmd.Dir, cmd.Env = module, append(append(os.Environ(), "GOBIN="+bin, "GOFLAGS="), env...)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return filepath.Join(bin, "nfpm")
		}
		t.Logf("go install: %v\n%s", err, out)
	}
	require.Missing(t, "nfpm", "a network, for go install "+nfpm)
	return ""
}

// TestPackages makes a package of each kind, and installs and removes the one for Debian.
func TestPackages(t *testing.T) {
	require.Root(t)
	tool, dir := packager(t), stage(t)
	small := filepath.Join(dir, "small")
	if err := os.WriteFile(small, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program := map[string]string{"deb": drive.Program(t, "sandbox"), "rpm": small, "apk": small, "archlinux": small}
	for kind, file := range program {
		config := filepath.Join(dir, kind+".yaml")
		if err := os.WriteFile(config, []byte(description(t, file)), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, dir, nil, tool, "package", "--config", config, "--packager", kind, "--target", filepath.Join(dir, "sandbox."+kind))
	}
	inDebian(t, filepath.Join(dir, "sandbox.deb"))
}

// inDebian runs the script inside.sh in a Debian of its own, with the package in it.
func inDebian(t *testing.T, deb string) {
	t.Helper()
	require.FUSE(t)
	unsquashfs := require.Program(t, "unsquashfs", "squashfs-tools")
	image, err := image.OpenRootFS(guestimage.Debian(t), "amd64")
	if err != nil {
		t.Fatal(err)
	}
	packed, err := filepath.Glob(filepath.Join(image.Dir, "*.squashfs"))
	if err != nil || len(packed) != 1 {
		t.Fatalf("the Debian is %q, %v", packed, err)
	}
	root := filepath.Join(t.TempDir(), "root")
	run(t, ".", nil, unsquashfs, "-quiet", "-no-progress", "-dest", root, packed[0])
	text, err := os.ReadFile(deb)
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "sandbox.deb"), text, 0o644) //nolint:gosec // for the users in it
	}
	if err != nil {
		t.Fatal(err)
	}
	// What the image was made without, an ordinary Debian installs.
	_ = os.Remove(filepath.Join(root, "etc", "dpkg", "dpkg.cfg.d", "99mmdebstrap"))
	script, err := filepath.Abs("testdata/inside.sh")
	if err != nil {
		t.Fatal(err)
	}
	before := names(t, root)
	out := run(t, ".", nil, "unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--propagation", "private", "sh", script, root)
	t.Log(out)
	if !strings.HasSuffix(out, "\nall done\n") {
		t.Error("the script did not come to its end")
	}
	after := names(t, root)
	for name := range after {
		if !before[name] {
			t.Errorf("purge has left %s", name)
		}
	}
	for name := range before {
		if !after[name] {
			t.Errorf("purge has taken %s", name)
		}
	}
}

// names are the files below root, but for what the script and dpkg's own records are.
func names(t *testing.T, root string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, root)
		for _, but := range []string{"/var/lib/dpkg/", "/var/log/", "/home/", "/host", "/sandbox.deb", "/etc/apparmor.d"} {
			if strings.HasPrefix(name, but) && name != "/etc/apparmor.d/sandbox" {
				return err
			}
		}
		all[name] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
