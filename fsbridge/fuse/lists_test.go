//go:build linux

package fuse

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// accessList gives users, by their numbers, the right to read, and others none.
func accessList(users ...uint32) []byte {
	const nobody = 1<<32 - 1
	b := []byte{2, 0, 0, 0}
	entry := func(tag, rights uint16, id uint32) {
		b = binary.LittleEndian.AppendUint16(b, tag)
		b = binary.LittleEndian.AppendUint16(b, rights)
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	entry(0x01, 7, nobody)
	for _, u := range users {
		entry(0x02, 4, u)
	}
	entry(0x04, 5, nobody)
	entry(0x10, 5, nobody)
	entry(0x20, 0, nobody)
	return b
}

// listOf is an access list of a file: nil if it has none.
func listOf(t *testing.T, path, attr string) []byte {
	t.Helper()
	b := make([]byte, 4096)
	n, err := unix.Getxattr(path, attr, b)
	if errors.Is(err, unix.ENODATA) {
		return nil
	}
	check(t, err)
	return b[:n]
}

func wantList(t *testing.T, path string, want []byte) {
	t.Helper()
	if got := listOf(t, path, hostfs.AccessACL); !bytes.Equal(got, want) {
		t.Errorf("%s has the list %v, want %v", path, got, want)
	}
}

// TestD10Lists: who is named inside is on the host who the workload is there, and a list that is copied names whom it named.
func TestD10Lists(t *testing.T) {
	require.Root(t) // to name others
	m := mount(t, func(o *vfs.Options) { o.Owner = &vfs.Owner{UID: 12345, GID: 12345}; o.Hooks = new(recorder) })
	in, out := filepath.Join(m.mnt, "f"), filepath.Join(m.host, "f")
	check(t, os.WriteFile(in, nil, 0o600))
	check(t, unix.Setxattr(in, hostfs.AccessACL, accessList(77, 12345), 0))
	wantList(t, in, accessList(77, 12345))
	wantList(t, out, accessList(77, 0))
	check(t, unix.Setxattr(out, hostfs.AccessACL, accessList(5, 12345), 0))
	_ = m.Changed([]string{"f"})
	wantList(t, in, accessList(5, 0))
	check(t, os.WriteFile(in+"2", nil, 0o600))
	check(t, unix.Setxattr(in+"2", hostfs.AccessACL, listOf(t, in, hostfs.AccessACL), 0))
	wantList(t, out+"2", accessList(5, 12345))
	check(t, unix.Removexattr(in, hostfs.AccessACL))
	wantList(t, in, nil)
	wantList(t, out, nil)
}

// TestD10ListsAlone: of a list with entries for others, who has no numbers for them is shown the rest, and it cannot
// replace it by a list that would be without them.
func TestD10ListsAlone(t *testing.T) {
	require.Root(t) // to name others
	m := mount(t, func(o *vfs.Options) {
		o.Owner = &vfs.Owner{UID: 12345, GID: 12345, Alone: true}
		o.Hooks = new(recorder)
	})
	in, out := filepath.Join(m.mnt, "f"), filepath.Join(m.host, "f")
	check(t, os.WriteFile(out, nil, 0o600))
	check(t, os.Chown(out, 500, 600))
	check(t, unix.Setxattr(out, hostfs.AccessACL, accessList(0, 77), 0))
	wantList(t, in, accessList(12345))
	var st unix.Stat_t
	check(t, unix.Stat(in, &st))
	if st.Uid != 12345 || st.Gid != 12345 {
		t.Errorf("it belongs to %d:%d", st.Uid, st.Gid)
	}
	check(t, unix.Chown(in, 12345, 12345))
	if err := unix.Setxattr(in, hostfs.AccessACL, accessList(12345), 0); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a list that would be without the others: %v", err)
	}
	wantList(t, out, accessList(0, 77))
	check(t, unix.Stat(out, &st))
	if st.Uid != 500 || st.Gid != 600 {
		t.Errorf("on the host it belongs to %d:%d", st.Uid, st.Gid)
	}
	check(t, unix.Removexattr(in, hostfs.AccessACL))
	wantList(t, out, nil)
	check(t, unix.Setxattr(in, hostfs.AccessACL, accessList(12345), 0))
	wantList(t, out, accessList(0))
}
