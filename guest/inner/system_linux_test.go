//go:build amd64 || arm64

package inner

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// The user comes before those of the system, once, and root is always there.
func TestWithUser(t *testing.T) {
	const line, root = "sandbox:x:7:7:::\n", "root:x:0:\n"
	for text, want := range map[string]string{
		"":                                line + root,
		"root:x:0:0:\nman:x:6:":           line + "root:x:0:0:\nman:x:6:\n",
		"\nsandbox:x:1:1:\nroot:*:0:\n\n": line + "root:*:0:\n",
		"groot:x:5:\nsandboxed:x:8:\n":    line + root + "groot:x:5:\nsandboxed:x:8:\n",
	} {
		if got := withUser(text, line, root); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestFileSystem(t *testing.T) {
	image := func(change func(b []byte)) string {
		b := make([]byte, 4096)
		change(b)
		file := filepath.Join(t.TempDir(), "disk")
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for want, change := range map[string]func([]byte){
		"squashfs": func(b []byte) { copy(b, "hsqs") },
		"erofs":    func(b []byte) { binary.LittleEndian.PutUint32(b[1024:], 0xe0f5e1e2) },
		"ext4":     func(b []byte) { b[1024+56], b[1024+57] = 0x53, 0xef },
		"":         func([]byte) {},
	} {
		if got, err := fileSystem(image(change)); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", want, got, err)
		}
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("hsqs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if kind, err := fileSystem(short); err == nil {
		t.Errorf("four bytes are a %s", kind)
	}
}
