//go:build inguest

package inside

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWatch prints what is modified in the directories of $WATCH. It does not end.
func TestWatch(t *testing.T) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[int32]string{}
	for _, dir := range filepath.SplitList(os.Getenv("WATCH")) {
		wd, err := unix.InotifyAddWatch(fd, dir, unix.IN_MODIFY)
		if err != nil {
			t.Fatal(err)
		}
		dirs[int32(wd)] = dir
	}
	fmt.Println("ready")
	for buf := make([]byte, 64<<10); ; {
		n, err := unix.Read(fd, buf)
		if err != nil {
			t.Fatal(err)
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd, size := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[12:])
			name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size], []byte{0})
			fmt.Println("modify", filepath.Join(dirs[wd], string(name)))
			b = b[unix.SizeofInotifyEvent+size:]
		}
	}
}
