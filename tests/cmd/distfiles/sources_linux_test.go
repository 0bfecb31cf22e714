package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// put writes files, whose names are relative to dir.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// repository is one of apt's with source packages, to which alone apt looks from now on.
func repository(t *testing.T, packages ...string) {
	t.Helper()
	dir := t.TempDir()
	index := ""
	for _, p := range packages {
		name, version, _ := strings.Cut(p, "=")
		files := map[string]string{description(p): "the description of " + p, name + ".tar.xz": "the text of " + p}
		put(t, filepath.Join(dir, "repo"), files)
		index += fmt.Sprintf("Package: %s\nBinary: %s\nVersion: %s\nFormat: 3.0 (native)\nDirectory: .\nChecksums-Sha256:\n", name, name, version)
		for _, file := range []string{description(p), name + ".tar.xz"} {
			index += fmt.Sprintf(" %x %d %s\n", sha256.Sum256([]byte(files[file])), len(files[file]), file)
		}
		index += "\n"
	}
	put(t, dir, map[string]string{
		"repo/Sources":         index,
		"parts/stanza.sources": "Types: deb\nURIs: file:" + dir + "/repo\nSuites: ./\nTrusted: yes\n",
		"parts/line.list":      "deb [trusted=yes] file:" + dir + "/nothing ./\n",
		"apt.conf":             "Dir::Etc::sourcelist \"/dev/null\";\nDir::Etc::sourceparts \"" + dir + "/parts\";\n",
	})
	t.Setenv("APT_CONFIG", filepath.Join(dir, "apt.conf"))
}

// TestSources gets the sources of two images, and finds what is missing beside them.
func TestSources(t *testing.T) {
	require.Program(t, "apt-get", "apt")
	repository(t, "linux=6.1-1", "busybox=1:1.35-4", "glibc=2.36-9")
	images := t.TempDir()
	built := func(arch string, from ...string) {
		put(t, images, map[string]string{guestFile(arch): string(guestimage.Archive(t, arch, from...))})
	}
	built("amd64", "linux=6.1-1", "busybox=1:1.35-4", "glibc=2.36-9")
	built("arm64", "linux=6.1-1", "busybox=1:1.35-4")
	var made [2]string
	for i := range made {
		if err := writeSources(images); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(images, sourcesFile))
		if err != nil {
			t.Fatal(err)
		}
		made[i] = string(text)
	}
	if made[0] != made[1] {
		t.Error("the same sources gave other bytes")
	}
	files := untar(t, strings.NewReader(made[0]))
	for name, want := range map[string]string{
		"linux_6.1-1.dsc": "the description of linux=6.1-1", "linux.tar.xz": "the text of linux=6.1-1", "busybox_1.35-4.dsc": "the description of busybox=1:1.35-4",
		"busybox.tar.xz": "the text of busybox=1:1.35-4", "glibc_2.36-9.dsc": "the description of glibc=2.36-9", "glibc.tar.xz": "the text of glibc=2.36-9",
	} {
		if got := string(files["sources/"+name]); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if len(files) != 7 || !strings.Contains(string(files["sources/README"]), "busybox_1.35-4.dsc") {
		t.Errorf("%d files, and the README is %q", len(files), files["sources/README"])
	}
	if err := checkSources(images); err != nil {
		t.Error(err)
	}
	built("arm64", "linux=6.1-2", "busybox=1:1.35-4")
	if err := checkSources(images); err == nil || !strings.Contains(err.Error(), "linux=6.1-2") || strings.Contains(err.Error(), "busybox") {
		t.Errorf("another kernel: %v", err)
	}
	if err := writeSources(images); err == nil || !strings.Contains(err.Error(), "linux=6.1-2") {
		t.Errorf("a version that is not to be had: %v", err)
	}
	built("arm64")
	if err := checkSources(images); err == nil || !strings.Contains(err.Error(), guestFile("arm64")) {
		t.Errorf("an image that does not say what it was built from: %v", err)
	}
}
