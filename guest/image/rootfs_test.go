//go:build linux

package image

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeTools puts programs in the place of mmdebstrap and sqfstar: the first runs
// a script that writes the archive, the second keeps what it reads.
func fakeTools(t *testing.T, mmdebstrap string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range map[string]string{
		"mmdebstrap": mmdebstrap, "newuidmap": "exit 0",
		"sqfstar": `[ "$*" != "${*#*-root-mode 755 -root-uid 0 -root-gid 0 }" ] || exit 9; for out; do :; done; exec cat >"$out"`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// someSystem makes an archive with two packages installed.
const someSystem = `echo "I: installing" >&2
d=$(mktemp -d); mkdir -p $d/var/lib/dpkg
printf 'Package: git\nStatus: install ok installed\nVersion: 1:2.39\nDescription: x\n Version: 9\n\nPackage: make\nVersion: 4.3-4\n' >$d/var/lib/dpkg/status
tar -C $d -cf - .; rm -r $d; echo "$*" >"$SEEN"; echo "$SOURCE_DATE_EPOCH" >>"$SEEN"`

// What mmdebstrap makes is kept whole, with the list of its packages; one that is
// damaged, or of another version, is not taken.
func TestBuildRootFS(t *testing.T) {
	fakeTools(t, someSystem)
	seen := filepath.Join(t.TempDir(), "seen")
	t.Setenv("SEEN", seen)
	dir := t.TempDir()
	if _, err := OpenRootFS(dir, "amd64"); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "run 'sandbox guest build --rootfs debian'") {
		t.Errorf("none: %v", err)
	}
	o := RootFSOptions{Dir: dir, Arch: "amd64", Suite: "bookworm", Mirror: "http://mirror.example/debian", Include: []string{"nodejs"}, Epoch: time.Unix(1700000000, 0)}
	built, err := BuildRootFS(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if p := built.Manifest.Packages; len(p) != 2 || p["git"] != "1:2.39" || p["make"] != "4.3-4" {
		t.Errorf("packages: %v", p)
	}
	for _, want := range []string{"--architectures=amd64 ", ",nodejs,", " bookworm - http://mirror.example/debian\n1700000000\n"} {
		if text := string(read(t, seen)); !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	r, err := OpenRootFS(dir, "amd64")
	if err == nil {
		err = r.Verify()
	}
	if err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 || names[0].Name() != "debian-amd64" {
		t.Errorf("made: %v, %v", names, err)
	}
	file := filepath.Join(r.Dir, rootFile)
	whole := read(t, file)
	for what, content := range map[string][]byte{"changed": append([]byte{whole[0] ^ 1}, whole[1:]...), "cut": whole[1:]} {
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := r.Verify(); !errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, text := range []string{"junk", `{"format":0,"arch":"amd64"}`, `{"format":1,"arch":"arm64"}`} {
		if err := os.WriteFile(filepath.Join(r.Dir, manifestFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenRootFS(dir, "amd64"); !errors.Is(err, ErrNone) {
			t.Errorf("manifest %s: %v", text, err)
		}
	}
}

// A machine has the system that was built unless it shall not, or names one of
// its own; a damaged one is an error, not busybox.
func TestRootFSOfSource(t *testing.T) {
	fakeTools(t, someSystem)
	t.Setenv("SEEN", os.DevNull)
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	if err := os.WriteFile(own, []byte("own"), 0o644); err != nil {
		t.Fatal(err)
	}
	size := func(s Source) int {
		t.Helper()
		f, err := s.rootFS()
		if err != nil {
			t.Fatal(err)
		}
		if f == nil {
			return -1
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return len(b)
	}
	s := Source{Dir: dir, Arch: "amd64"}
	if n := size(s); n != -1 {
		t.Errorf("none was built: %d bytes", n)
	}
	r, err := BuildRootFS(t.Context(), RootFSOptions{Dir: dir, Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	if n := size(s); int64(n) != r.Manifest.File.Bytes {
		t.Errorf("%d bytes of %d", n, r.Manifest.File.Bytes)
	}
	if n := size(Source{Dir: dir, Arch: "amd64", NoRootFS: true}); n != -1 {
		t.Errorf("not wanted: %d bytes", n)
	}
	if n := size(Source{Dir: dir, Arch: "amd64", RootFSPath: own}); n != 3 {
		t.Errorf("of one's own: %d bytes", n)
	}
	if err := os.Truncate(filepath.Join(r.Dir, rootFile), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.rootFS(); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "is not what was built") {
		t.Errorf("damaged: %v", err)
	}
}

// What goes wrong is said in the words of who found it, and leaves nothing, or
// what was there before.
func TestBuildRootFSFails(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for what, c := range map[string]struct {
		ctx    context.Context
		script string
		o      RootFSOptions
		want   string
	}{
		"no mirror":       {t.Context(), "echo 'I: x' >&2; echo 'E: no route to the mirror' >&2; echo 'E: mmdebstrap failed to run' >&2; exit 25", RootFSOptions{}, "E: no route to the mirror"},
		"no archive":      {t.Context(), "echo junk", RootFSOptions{}, "the root file system"},
		"no packages":     {t.Context(), "exec tar -cf - -T /dev/null", RootFSOptions{}, "has no packages"},
		"an option":       {t.Context(), "exit 1", RootFSOptions{Include: []string{"--hook=x"}}, "not the name of a package"},
		"a suite":         {t.Context(), "exit 1", RootFSOptions{Suite: "-x"}, "not the name of a suite"},
		"a mirror":        {t.Context(), "exit 1", RootFSOptions{Mirror: "--x"}, "is no URL"},
		"an architecture": {t.Context(), "exit 1", RootFSOptions{Arch: "mips"}, "no guest for architecture"},
		"somebody's wish": {cancelled, someSystem, RootFSOptions{}, context.Canceled.Error()},
	} {
		t.Run(what, func(t *testing.T) {
			fakeTools(t, c.script)
			t.Setenv("SEEN", os.DevNull)
			c.o.Dir = t.TempDir()
			if c.o.Arch == "" {
				c.o.Arch = "amd64"
			}
			_, err := BuildRootFS(c.ctx, c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("no %q in %v", c.want, err)
			}
			if left, _ := os.ReadDir(c.o.Dir); len(left) != 0 {
				t.Errorf("%s is left", left[0].Name())
			}
		})
	}
	t.Setenv("PATH", t.TempDir())
	_, err := BuildRootFS(t.Context(), RootFSOptions{Dir: t.TempDir(), Arch: "amd64"})
	if err == nil || !strings.Contains(err.Error(), "sudo apt install mmdebstrap squashfs-tools") {
		t.Errorf("no programs: %v", err)
	}
}

func TestHostSuite(t *testing.T) {
	for text, want := range map[string]string{
		"ID=debian\nVERSION_CODENAME=bookworm\n": "bookworm", "ID=\"debian\"\nVERSION_CODENAME='trixie'": "trixie",
		"ID=ubuntu\nVERSION_CODENAME=noble\n": "stable", "ID=debian\nVERSION_CODENAME=--x\n": "stable", "": "stable",
	} {
		file := filepath.Join(t.TempDir(), "os-release")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := hostSuite(file); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := hostSuite("/nowhere"); got != "stable" {
		t.Error(got)
	}
}
