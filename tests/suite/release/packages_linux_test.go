package release

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/guest/image"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// nfpmAt is what makes packages within the GoReleaser that the Makefile names.
const nfpmAt = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2"

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

// tool builds a program of a Go module, and returns its path. Without a network the module cache may have it.
func tool(t *testing.T, program string) string {
	t.Helper()
	bin := t.TempDir()
	cache := strings.TrimSpace(run(t, module, nil, "go", "env", "GOMODCACHE"))
	for _, env := range [][]string{{}, {"GOSUMDB=off", "GOPROXY=file://" + filepath.Join(cache, "cache", "download")}} {
		cmd := exec.Command("go", "install", program)
		cmd.Dir, cmd.Env = module, append(append(os.Environ(), "GOBIN="+bin, "GOFLAGS="), env...)
		out, err := cmd.CombinedOutput()
		if err == nil {
			name, _, _ := strings.Cut(path.Base(program), "@")
			return filepath.Join(bin, name)
		}
		t.Logf("go install: %v\n%s", err, out)
	}
	require.Missing(t, program, "a network, for go install "+program)
	return ""
}

// TestPackages makes a package of each kind, and installs and removes those for which Debian has the
// programs: all but Alpine's.
func TestPackages(t *testing.T) {
	require.Root(t)
	nfpm, dir := tool(t, nfpmAt), stage(t)
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
		name := strings.Replace("sandbox."+kind, ".archlinux", ".archlinux.pkg.tar.zst", 1)
		run(t, dir, nil, nfpm, "package", "--config", config, "--packager", kind, "--target", filepath.Join(dir, name))
	}
	root := inDebian(t, filepath.Join(dir, "sandbox.deb"))
	// pacman runs the scripts by sh, which is bash on Arch.
	if err := os.Remove(filepath.Join(root, "bin", "sh")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("bash", filepath.Join(root, "bin", "sh")); err != nil {
		t.Fatal(err)
	}
	rpm := []string{require.Program(t, "rpm", "rpm"), "--root", root, "--dbpath", "/var/lib/rpm"}
	file := filepath.Join(dir, "sandbox.rpm")
	installs(t, root, rpm, []string{"-i", file}, []string{"-U", "--force", file}, []string{"-V", "sandbox"}, []string{"-e", "sandbox"})
	pacman := []string{
		require.Program(t, "pacman", "pacman-package-manager"), "--root", root, "--dbpath", t.TempDir(), "--cachedir", t.TempDir(),
		"--logfile", os.DevNull, "--noconfirm",
	}
	file = filepath.Join(dir, "sandbox.archlinux.pkg.tar.zst")
	installs(t, root, pacman, []string{"-U", file}, []string{"-U", file}, []string{"-Qkk", "sandbox"}, []string{"-R", "sandbox"})
}

// installs installs a package into a root, installs it over itself, verifies it and removes it. A profile
// for AppArmor comes with it and goes with it, and nothing else of its name is left: the directories that
// it shares with other packages are those of the distribution, which this root is not.
func installs(t *testing.T, root string, tool, install, again, verify, remove []string) {
	t.Helper()
	do := func(args []string) {
		t.Helper()
		// pacman says only on its output that a script failed.
		if out := run(t, ".", nil, tool[0], append(slices.Clone(tool[1:]), args...)...); strings.Contains(out, "error") || strings.Contains(out, "rror:") {
			t.Errorf("%s %q: %s", tool[0], args, out)
		}
	}
	shared := func(name string, _ bool) bool { return !strings.Contains(name, "sandbox") }
	before := names(t, root)
	maps.DeleteFunc(before, shared)
	do(install)
	for _, args := range [][]string{again, verify} {
		do(args)
		for _, name := range []string{"usr/bin/sandbox", "usr/share/man/man1/sandbox-run.1.gz", "usr/share/zsh/site-functions/_sandbox", "etc/apparmor.d/sandbox"} {
			if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Size() == 0 {
				t.Errorf("%s: after %q, %s: %v", tool[0], args, name, err)
			}
		}
	}
	do(remove)
	after := names(t, root)
	maps.DeleteFunc(after, shared)
	same(t, before, after)
}

// inDebian runs the script inside.sh in a Debian of its own, with the package in it, and returns
// where that Debian is.
func inDebian(t *testing.T, deb string) string {
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
	same(t, before, names(t, root))
	return root
}

// same fails the test if a package has left something behind, or taken something.
func same(t *testing.T, before, after map[string]bool) {
	t.Helper()
	for name := range after {
		if !before[name] {
			t.Errorf("the removed package has left %s", name)
		}
	}
	for name := range before {
		if !after[name] {
			t.Errorf("the removed package has taken %s", name)
		}
	}
}

// names are the files below root, but for what the script and dpkg's own records are.
func names(t *testing.T, root string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, root)
		for _, but := range []string{"/var/lib/dpkg/", "/var/lib/rpm", "/var/log/", "/home/", "/host", "/sandbox.deb", "/etc/apparmor.d"} {
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
