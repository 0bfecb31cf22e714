package winprobe_test

import (
	"encoding/binary"
	"testing"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	shareAll  = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	readWrite = windows.GENERIC_READ | windows.GENERIC_WRITE | windows.DELETE
	file      = windows.FILE_NON_DIRECTORY_FILE
	directory = windows.FILE_DIRECTORY_FILE
	itself    = windows.FILE_OPEN_REPARSE_POINT // and not what it leads to
)

// A folder is a directory that the test has open, and in which it opens names.
type folder struct {
	t    *testing.T
	path string
	h    windows.Handle
	held map[windows.Handle]bool // what it has open in the folder: see close
}

func newFolder(t *testing.T) folder {
	t.Helper()
	path := t.TempDir()
	h, err := windows.CreateFile(wide(t, path), windows.FILE_LIST_DIRECTORY|windows.FILE_TRAVERSE|windows.FILE_READ_ATTRIBUTES, shareAll, nil,
		windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := folder{t, path, h, map[windows.Handle]bool{h: true}}
	t.Cleanup(func() {
		for h := range f.held {
			_ = f.close(h)
		}
	})
	return f
}

// close closes a handle, once: the system gives its number to the next one that is opened, which may be what a thread of Go's runtime waits for.
func (f folder) close(h windows.Handle) error {
	if !f.held[h] {
		return windows.ERROR_INVALID_HANDLE
	}
	delete(f.held, h)
	return windows.CloseHandle(h)
}

func wide(t *testing.T, s string) *uint16 {
	t.Helper()
	p, err := windows.UTF16PtrFromString(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// open is NtCreateFile relative to dir. An empty name opens dir's own file again.
func (f folder) open(dir windows.Handle, name string, access, share, disposition, options uint32) (windows.Handle, error) {
	s := &windows.NTUnicodeString{}
	if name != "" {
		var err error
		if s, err = windows.NewNTUnicodeString(name); err != nil {
			return 0, err
		}
	}
	a := windows.OBJECT_ATTRIBUTES{RootDirectory: dir, ObjectName: s}
	a.Length = uint32(unsafe.Sizeof(a))
	var h windows.Handle
	var status windows.IO_STATUS_BLOCK
	err := windows.NtCreateFile(&h, access|windows.SYNCHRONIZE, &a, &status, nil, windows.FILE_ATTRIBUTE_NORMAL, share, disposition,
		options|windows.FILE_SYNCHRONOUS_IO_NONALERT|windows.FILE_OPEN_FOR_BACKUP_INTENT, 0, 0)
	if err == nil {
		f.held[h] = true
	}
	return h, err
}

// create makes a file with this content.
func (f folder) create(name, content string) windows.Handle {
	f.t.Helper()
	h, err := f.open(f.h, name, readWrite, shareAll, windows.FILE_CREATE, file)
	if err == nil {
		var n uint32
		err = windows.WriteFile(h, []byte(content), &n, &windows.Overlapped{})
	}
	if err != nil {
		f.t.Fatalf("create %s: %v", name, err)
	}
	return h
}

// Classes of NtSetInformationFile.
const (
	renameClass   = 10
	linkClass     = 11
	deleteExClass = 64
	renameExClass = 65
)

// Flags of the Ex classes.
const (
	replace        = 1
	posixRename    = 2
	deleteIt       = 1
	posixDelete    = 2
	ignoreReadOnly = 0x10
)

func set(h windows.Handle, class uint32, b []byte) error {
	var status windows.IO_STATUS_BLOCK
	return windows.NtSetInformationFile(h, &status, &b[0], uint32(len(b)), class)
}

// target is FILE_RENAME_INFORMATION and FILE_LINK_INFORMATION.
func target(flags uint32, dir windows.Handle, name string) []byte {
	u := utf16.Encode([]rune(name))
	b := binary.LittleEndian.AppendUint64(nil, uint64(flags))
	b = binary.LittleEndian.AppendUint64(b, uint64(dir))
	b = binary.LittleEndian.AppendUint32(b, uint32(2*len(u)))
	for _, c := range u {
		b = binary.LittleEndian.AppendUint16(b, c)
	}
	return append(b, make([]byte, max(0, 24-len(b)))...) // the structure's own size is the least
}

func remove(h windows.Handle, flags uint32) error {
	return set(h, deleteExClass, binary.LittleEndian.AppendUint32(nil, flags))
}

func read(h windows.Handle) (string, error) {
	b := make([]byte, 64)
	var n uint32
	err := windows.ReadFile(h, b, &n, &windows.Overlapped{})
	return string(b[:n]), err
}

func info(f folder, h windows.Handle) windows.ByHandleFileInformation {
	f.t.Helper()
	var i windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &i); err != nil {
		f.t.Fatal(err)
	}
	return i
}
