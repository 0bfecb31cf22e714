package posix

import (
	"encoding/binary"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
)

// What package windows has not.
const (
	fileNameInformation                  = 9
	fileLinkInformation                  = 11
	fileAllInformation                   = 18
	fileAllocationInformation            = 19
	fileStandardInformation              = 5
	fileInternalInformation              = 6
	fileTagInformation                   = 35
	fileIDBothDirectory                  = 37
	fileNormalizedNameInformation        = 48
	fileIDInformation                    = 59
	fileIDExtdDirectory                  = 60
	fileStatInformation                  = 68
	fileRenameInformationEx              = 65
	fileSystemVolume                     = 1
	fileSystemDevice                     = 4
	fileSystemAttributes                 = 5
	fileSystemFullSize                   = 7
	attributesOnly                       = windows.FILE_READ_ATTRIBUTES | windows.SYNCHRONIZE
	shareAll                             = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	attributesThatStay            uint32 = windows.FILE_ATTRIBUTE_READONLY | windows.FILE_ATTRIBUTE_HIDDEN | windows.FILE_ATTRIBUTE_SYSTEM |
		windows.FILE_ATTRIBUTE_ARCHIVE | windows.FILE_ATTRIBUTE_TEMPORARY | windows.FILE_ATTRIBUTE_OFFLINE | windows.FILE_ATTRIBUTE_NOT_CONTENT_INDEXED
)

// opening says how a file is opened. The zero value opens what is there for its attributes, and not what it leads to.
type opening struct {
	access      uint32
	disposition uint32 // FILE_OPEN if 0
	options     uint32
	attributes  uint32 // of a new file
	follow      bool   // reparse points are followed
}

// ntOpen opens name, relative to the directory root if there is one. With an empty name it is what is open as root.
func ntOpen(root windows.Handle, name string, o opening) (windows.Handle, error) {
	object, err := ntName(name)
	if err != nil {
		return 0, err
	}
	h, err := ntOpenObject(root, object, o)
	if err == nil && root != 0 && mayBeShort(name) && isShort(root, name) {
		ntClose(h)
		if err = error(ENOENT); o.disposition == windows.FILE_OPEN_IF {
			err = EEXIST
		}
		return 0, err
	}
	return h, err
}

func ntOpenObject(root windows.Handle, object *windows.NTUnicodeString, o opening) (windows.Handle, error) {
	at := windows.OBJECT_ATTRIBUTES{RootDirectory: root, ObjectName: object, Attributes: windows.OBJ_CASE_INSENSITIVE}
	at.Length = uint32(unsafe.Sizeof(at))
	options := o.options | windows.FILE_SYNCHRONOUS_IO_NONALERT
	if !o.follow {
		options |= windows.FILE_OPEN_REPARSE_POINT
	}
	if o.disposition == 0 {
		o.disposition = windows.FILE_OPEN
	}
	var (
		h      windows.Handle
		status windows.IO_STATUS_BLOCK
	)
	err := windows.NtCreateFile(&h, o.access|attributesOnly, &at, &status, nil, o.attributes|windows.FILE_ATTRIBUTE_NORMAL, shareAll,
		o.disposition, options, 0, 0)
	if err == windows.STATUS_DELETE_PENDING && o.disposition != windows.FILE_OPEN {
		err = windows.STATUS_SHARING_VIOLATION // the name is there until somebody closes the file
	}
	return h, err
}

// ntOpenToChange opens a file to set its attributes. Wine denies that for one that is read-only, and then lets them be set all the same.
func ntOpenToChange(root windows.Handle, name string, follow bool) (windows.Handle, error) {
	h, err := ntOpen(root, name, opening{access: windows.FILE_WRITE_ATTRIBUTES, follow: follow})
	if err == windows.STATUS_ACCESS_DENIED {
		h, err = ntOpen(root, name, opening{follow: follow})
	}
	return h, err
}

func ntName(name string) (*windows.NTUnicodeString, error) {
	units := utf16.Encode([]rune(name))
	if len(units) > 32767 {
		return nil, ENAMETOOLONG
	}
	s := &windows.NTUnicodeString{Length: uint16(2 * len(units)), MaximumLength: uint16(2 * len(units))}
	if len(units) > 0 {
		s.Buffer = &units[0]
	}
	return s, nil
}

// ntClose closes a handle that nothing was written by.
func ntClose(h windows.Handle) { _ = windows.CloseHandle(h) }

func ntSet(h windows.Handle, class uint32, b []byte) error {
	var status windows.IO_STATUS_BLOCK
	return windows.NtSetInformationFile(h, &status, &b[0], uint32(len(b)), class)
}

// ntQuery fills b. That there would be more is no error.
func ntQuery(h windows.Handle, class uint32, b []byte) error {
	var status windows.IO_STATUS_BLOCK
	err := windows.NtQueryInformationFile(h, &status, &b[0], uint32(len(b)), class)
	if err == windows.STATUS_BUFFER_OVERFLOW {
		return nil
	}
	return err
}

// unknown tells whether a file system, or a system, does not know a call.
func unknown(err error) bool {
	switch err {
	case windows.STATUS_NOT_IMPLEMENTED, windows.STATUS_NOT_SUPPORTED, windows.STATUS_INVALID_INFO_CLASS,
		windows.STATUS_INVALID_DEVICE_REQUEST, windows.STATUS_INVALID_PARAMETER:
		return true
	}
	return false
}

// inTheWay tells whether another program is in the way that may be gone soon.
func inTheWay(err error) bool { return from(err) == EBUSY }

// nameInformation is a FILE_RENAME_INFORMATION or a FILE_LINK_INFORMATION.
func nameInformation(flags uint32, dir windows.Handle, name string) []byte {
	units := utf16.Encode([]rune(name))
	b := make([]byte, 20, 24+2*len(units))
	binary.LittleEndian.PutUint32(b, flags)
	binary.LittleEndian.PutUint64(b[8:], uint64(dir))
	binary.LittleEndian.PutUint32(b[16:], uint32(2*len(units)))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return append(b, make([]byte, max(24-len(b), 0))...)
}

// units reads UTF-16.
func units(b []byte) string {
	if len(b) < 2 {
		return ""
	}
	text := make([]uint16, len(b)/2)
	for i := range text {
		text[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return windows.UTF16ToString(text)
}

// pathOnVolume returns the path by which h was opened or has been renamed to, from the root of its volume on. Short names (PROGRA~1) are the long
// ones in it, where the system knows that.
func pathOnVolume(h windows.Handle) (string, error) {
	path, err := pathByClass(h, fileNormalizedNameInformation)
	if err != nil {
		path, err = pathByClass(h, fileNameInformation)
	}
	return path, err
}

func pathByClass(h windows.Handle, class uint32) (string, error) {
	for size := 1 << 10; ; size *= 4 {
		b := make([]byte, size)
		var status windows.IO_STATUS_BLOCK
		err := windows.NtQueryInformationFile(h, &status, &b[0], uint32(len(b)), class)
		if err == windows.STATUS_BUFFER_OVERFLOW && size < 1<<17 {
			continue
		}
		if err != nil {
			return "", err
		}
		return units(b[4:min(4+int(binary.LittleEndian.Uint32(b)), len(b))]), nil
	}
}

// ntOpenID opens a file by its id, on the volume of which something is open.
func ntOpenID(volume windows.Handle, id []byte, o opening) (windows.Handle, error) {
	name := &windows.NTUnicodeString{Length: uint16(len(id)), MaximumLength: uint16(len(id)), Buffer: (*uint16)(unsafe.Pointer(&id[0]))}
	return ntOpenObject(volume, name, o)
}
