package image

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestList: what was built is listed with its kind, size and date, and what cannot be used with why.
func TestList(t *testing.T) {
	dir := t.TempDir()
	if list := List(dir); len(list) != 0 || list == nil {
		t.Errorf("%+v", list)
	}
	put := func(at string, manifest any, files ...string) {
		t.Helper()
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(manifest)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{manifestFile: text} {
			if err := os.WriteFile(filepath.Join(at, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range files {
			if err := os.WriteFile(filepath.Join(at, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(filepath.Join(dir, "amd64"), Manifest{Format: format, Arch: "amd64", Kernel: "6.12", Files: map[string]Sum{kernelFile: {Bytes: 3}, baseFile: {Bytes: 4}}}, kernelFile, baseFile)
	put(rootDir(dir, "amd64"), RootManifest{Format: rootFormat, Arch: "amd64", Suite: "trixie", Packages: map[string]string{"git": "1"}, File: Sum{Bytes: 9}})
	put(filepath.Join(dir, "arm64"), Manifest{Format: format + 1, Arch: "arm64"})
	list := List(dir)
	if len(list) != 3 {
		t.Fatalf("%+v", list)
	}
	if b := list[0]; b.Kind != "busybox" || b.Arch != "amd64" || b.Version != "6.12" || b.Bytes != 7 || b.Problem != "" || b.At.IsZero() {
		t.Errorf("%+v", b)
	}
	if b := list[1]; b.Kind != "debian" || b.Version != "trixie" || b.Packages != 1 || b.Bytes != 9 || !strings.Contains(b.Problem, rootFile) {
		t.Errorf("%+v", b)
	}
	if b := list[2]; b.Arch != "arm64" || !strings.Contains(b.Problem, "format") || b.At.IsZero() {
		t.Errorf("%+v", b)
	}
}
