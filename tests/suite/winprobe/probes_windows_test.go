package winprobe_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// probes are what is asked. An error says what is otherwise than on Windows.
var probes = map[string]func(f folder) error{
	"open below a handle": func(f folder) error {
		d, err := f.open(f.h, "d", windows.FILE_LIST_DIRECTORY, shareAll, windows.FILE_CREATE, directory)
		if err != nil {
			return err
		}
		_, err = f.open(d, "x", readWrite, shareAll, windows.FILE_CREATE, file)
		_, again := f.open(d, "x", readWrite, shareAll, windows.FILE_CREATE, file)
		_, missing := f.open(d, "y", readWrite, shareAll, windows.FILE_OPEN, file)
		_, kind := f.open(f.h, "d", readWrite, shareAll, windows.FILE_OPEN, file)
		return errors.Join(err, is(again, windows.STATUS_OBJECT_NAME_COLLISION), is(missing, windows.STATUS_OBJECT_NAME_NOT_FOUND), is(kind, windows.STATUS_FILE_IS_A_DIRECTORY))
	},
	"the way up is refused": func(f folder) error {
		_, up := f.open(f.h, "..", windows.FILE_LIST_DIRECTORY, shareAll, windows.FILE_OPEN, 0)
		_, back := f.open(f.h, `d\..\x`, windows.GENERIC_READ, shareAll, windows.FILE_OPEN, 0)
		return errors.Join(refused(".. is opened", up), refused("a name with .. is opened", back))
	},
	"open again by a handle": func(f folder) error {
		h, err := f.open(f.create("a", "text"), "", windows.GENERIC_READ, shareAll, windows.FILE_OPEN, 0)
		if err != nil {
			return err
		}
		return reads(h, "text")
	},
	"open by id": func(f folder) error {
		i := info(f, f.create("a", "text"))
		id := struct {
			size, kind uint32
			number     [2]uint64
		}{size: 24, number: [2]uint64{uint64(i.FileIndexHigh)<<32 | uint64(i.FileIndexLow)}}
		h, _, err := windows.NewLazySystemDLL("kernel32.dll").NewProc("OpenFileById").Call(uintptr(f.h), uintptr(unsafe.Pointer(&id)), windows.GENERIC_READ, shareAll, 0, 0)
		if windows.Handle(h) == windows.InvalidHandle {
			return err
		}
		defer windows.CloseHandle(windows.Handle(h))
		return reads(windows.Handle(h), "text")
	},
	"ids of 128 bits": func(f folder) error {
		var id [24]byte
		return windows.GetFileInformationByHandleEx(f.create("a", ""), 18, &id[0], 24) // FileIdInfo
	},
	"share modes": func(f folder) error {
		h, err := f.open(f.h, "a", readWrite, windows.FILE_SHARE_READ, windows.FILE_CREATE, file)
		_, write := f.open(f.h, "a", windows.GENERIC_WRITE, shareAll, windows.FILE_OPEN, file)
		_, remove := f.open(f.h, "a", windows.DELETE, shareAll, windows.FILE_OPEN, file)
		_ = f.close(h)
		_, free := f.open(f.h, "a", readWrite, shareAll, windows.FILE_OPEN, file)
		return errors.Join(err, is(write, windows.STATUS_SHARING_VIOLATION), is(remove, windows.STATUS_SHARING_VIOLATION), free)
	},
	"rename without replacing": func(f folder) error {
		h := f.create("a", "")
		f.create("b", "")
		return errors.Join(is(set(h, renameClass, target(0, f.h, "b")), windows.STATUS_OBJECT_NAME_COLLISION), set(h, renameClass, target(0, f.h, "c")), f.has("b", "c"))
	},
	"POSIX rename over an open file": func(f folder) error {
		h, old := f.create("a", "new"), f.create("b", "old")
		return errors.Join(set(h, renameExClass, target(replace|posixRename, f.h, "b")), f.has("b"), reads(old, "old"), reads(h, "new"))
	},
	"POSIX rename of a directory with an open child": func(f folder) error {
		d, err := f.open(f.h, "d", windows.FILE_LIST_DIRECTORY|windows.DELETE, shareAll, windows.FILE_CREATE, directory)
		if err != nil {
			return err
		}
		_, err = f.open(d, "x", readWrite, shareAll, windows.FILE_CREATE, file)
		// Windows refuses that, and so the bridge closes the child, renames, and opens it by its id. Either answer is one that it knows.
		renamed := set(d, renameExClass, target(posixRename, f.h, "e"))
		if errors.Is(renamed, windows.STATUS_ACCESS_DENIED) {
			return errors.Join(err, f.has("d"))
		}
		return errors.Join(err, renamed, f.has("e"))
	},
	"rename that changes only case": func(f folder) error {
		return errors.Join(set(f.create("name", ""), renameClass, target(replace, f.h, "Name")), f.has("Name"))
	},
	"names in another case are the same": func(f folder) error {
		f.create("name", "")
		_, err := os.Stat(filepath.Join(f.path, "NAME"))
		return err
	},
	"POSIX delete takes the name at once": func(f folder) error {
		h := f.create("a", "text")
		other, err := f.open(f.h, "a", windows.GENERIC_READ, shareAll, windows.FILE_OPEN, file)
		err = errors.Join(err, remove(h, deleteIt|posixDelete), f.close(h), f.has())
		return errors.Join(err, reads(other, "text"))
	},
	"POSIX delete of a read-only file": func(f folder) error {
		h := f.create("a", "")
		if err := os.Chmod(filepath.Join(f.path, "a"), 0o444); err != nil {
			return err
		}
		return errors.Join(remove(h, deleteIt|posixDelete|ignoreReadOnly), f.close(h), f.has())
	},
	"a directory that is not empty stays": func(f folder) error {
		d, err := f.open(f.h, "d", windows.FILE_LIST_DIRECTORY|windows.DELETE, shareAll, windows.FILE_CREATE, directory)
		x, inner := f.open(d, "x", readWrite, shareAll, windows.FILE_CREATE, file)
		return errors.Join(err, inner, f.close(x), is(remove(d, deleteIt|posixDelete), windows.STATUS_DIRECTORY_NOT_EMPTY), f.has("d"))
	},
	"link by a handle": func(f folder) error {
		h := f.create("a", "")
		err := errors.Join(set(h, linkClass, target(0, f.h, "b")), f.has("a", "b"))
		if n := info(f, h).NumberOfLinks; n != 2 {
			return errors.Join(err, fmt.Errorf("%d links", n))
		}
		return errors.Join(err, is(set(h, linkClass, target(0, f.h, "b")), windows.STATUS_OBJECT_NAME_COLLISION))
	},
	"locks exclude another handle": func(f folder) error {
		h := f.create("a", "")
		other, err := f.open(f.h, "a", readWrite, shareAll, windows.FILE_OPEN, file)
		const now = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
		err = errors.Join(err, windows.LockFileEx(h, now, 0, 1, 0, &windows.Overlapped{}), is(windows.LockFileEx(other, now, 0, 1, 0, &windows.Overlapped{}), windows.ERROR_LOCK_VIOLATION))
		return errors.Join(err, f.close(h), windows.LockFileEx(other, now, 0, 1, 0, &windows.Overlapped{}))
	},
	"times of 100 ns": func(f folder) error {
		h := f.create("a", "")
		want := windows.NsecToFiletime(1_600_000_000_123_456_700)
		err := windows.SetFileTime(h, nil, &want, &want)
		if got := info(f, h).LastWriteTime; got != want {
			return errors.Join(err, fmt.Errorf("%d", got.Nanoseconds()))
		}
		return err
	},
	"flush of a file": func(f folder) error { return windows.FlushFileBuffers(f.create("a", "x")) },
	"a stream is no file": func(f folder) error {
		f.create("a", "")
		return errors.Join(os.WriteFile(filepath.Join(f.path, "a:s"), []byte("x"), 0o644), f.has("a"))
	},
	"paths of 1,000 characters": func(f folder) error {
		return os.MkdirAll(`\\?\`+f.path+strings.Repeat(`\`+strings.Repeat("x", 99), 10), 0o755)
	},
	"paths of 32,000 characters": func(f folder) error {
		return os.MkdirAll(`\\?\`+f.path+strings.Repeat(`\`+strings.Repeat("x", 99), 320), 0o755)
	},
	"names of devices are names below a handle": func(f folder) error {
		f.create("con", "")
		f.create("nul.txt", "")
		return f.has("con", "nul.txt")
	},
	"names with a dot or a space at the end": func(f folder) error {
		f.create("dot.", "")
		f.create("space ", "")
		return f.has("dot.", "space ")
	},
	"names with signs that are not allowed": func(f folder) error {
		var err error
		for _, sign := range []string{"<", ">", `"`, "|", "?", "*"} {
			_, made := f.open(f.h, "a"+sign, readWrite, shareAll, windows.FILE_CREATE, file)
			err = errors.Join(err, refused("a name with "+sign, made))
		}
		return err
	},
	"a symlink is opened itself": func(f folder) error {
		f.create("a", "text")
		if err := os.Symlink("a", filepath.Join(f.path, "link")); err != nil {
			return err
		}
		h, err := f.open(f.h, "link", windows.FILE_READ_ATTRIBUTES, shareAll, windows.FILE_OPEN, itself)
		if err != nil {
			return err
		}
		return hasTag(h, windows.IO_REPARSE_TAG_SYMLINK)
	},
	"a junction is opened itself": func(f folder) error {
		h, err := f.open(f.h, "junction", windows.GENERIC_WRITE|windows.GENERIC_READ, shareAll, windows.FILE_CREATE, directory|itself)
		if err != nil {
			return err
		}
		var n uint32
		b := mountPoint(`\??\` + f.path)
		if err := windows.DeviceIoControl(h, windows.FSCTL_SET_REPARSE_POINT, &b[0], uint32(len(b)), nil, 0, &n, nil); err != nil {
			return err
		}
		return hasTag(h, windows.IO_REPARSE_TAG_MOUNT_POINT)
	},
	"holes": func(f folder) error {
		var n uint32
		h := f.create("a", strings.Repeat("x", 1<<16))
		all := binary.LittleEndian.AppendUint64(make([]byte, 8), 1<<16)
		return errors.Join(windows.DeviceIoControl(h, windows.FSCTL_SET_SPARSE, nil, 0, nil, 0, &n, nil),
			windows.DeviceIoControl(h, windows.FSCTL_SET_ZERO_DATA, &all[0], 16, nil, 0, &n, nil), reads(h, strings.Repeat("\x00", 64)))
	},
}

func is(err, want error) error {
	if !errors.Is(err, want) {
		return fmt.Errorf("got %w, want %w", errors.Join(err), want)
	}
	return nil
}

func refused(what string, err error) error {
	if err == nil {
		return errors.New(what)
	}
	return nil
}

func reads(h windows.Handle, want string) error {
	got, err := read(h)
	if err == nil && got != want {
		err = fmt.Errorf("it has %q, want %q", got, want)
	}
	return err
}

// has compares what is in the folder.
func (f folder) has(want ...string) error {
	entries, err := os.ReadDir(f.path)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if err == nil && strings.Join(got, "/") != strings.Join(want, "/") {
		err = fmt.Errorf("the folder has %q, want %q", got, want)
	}
	return err
}

func hasTag(h windows.Handle, want uint32) error {
	var i [2]uint32
	err := windows.GetFileInformationByHandleEx(h, windows.FileAttributeTagInfo, (*byte)(unsafe.Pointer(&i)), 8)
	if err == nil && i[1] != want {
		err = fmt.Errorf("its tag is %x, want %x", i[1], want)
	}
	return err
}

// mountPoint is REPARSE_DATA_BUFFER of a junction.
func mountPoint(to string) []byte {
	name, _ := windows.UTF16FromString(to)
	size := 2 * (len(name) - 1)
	b := binary.LittleEndian.AppendUint32(nil, windows.IO_REPARSE_TAG_MOUNT_POINT)
	for _, v := range []int{8 + size + 4, 0, 0, size, size + 2, 0} {
		b = binary.LittleEndian.AppendUint16(b, uint16(v))
	}
	for _, c := range append(name, 0) {
		b = binary.LittleEndian.AppendUint16(b, c)
	}
	return b
}

// wineLacks are the probes that fail on wine 10.
var wineLacks = map[string]string{
	"a symlink is opened itself":     "it makes none",
	"a junction is opened itself":    "it makes none",
	"a stream is no file":            "it is one, with a colon in its name",
	"rename that changes only case":  "it does nothing",
	"POSIX rename over an open file": "it is refused as long as somebody has the file open",
	"holes":                          "there is no FSCTL_SET_SPARSE",
	"paths of 32,000 characters":     "Linux's have 4,096",
}

func TestPrimitives(t *testing.T) {
	wine := windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
	for name, probe := range probes {
		t.Run(name, func(t *testing.T) {
			err := probe(newFolder(t))
			why, lacks := wineLacks[name]
			switch lacks = lacks && wine; {
			case err != nil && !lacks:
				t.Error(err)
			case err == nil && lacks:
				t.Errorf("wine has it by now: take it from the list (%s)", why)
			}
		})
	}
}
