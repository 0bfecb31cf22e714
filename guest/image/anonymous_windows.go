package image

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// anonymous makes a temporary file that is gone when it is closed. It has no name for those who would open it by that: Windows lets
// nobody do so who does not expect that it goes.
func anonymous() (*os.File, error) {
	path, err := windows.UTF16PtrFromString(filepath.Join(os.TempDir(), "sandbox-initramfs-"+rand.Text()))
	if err != nil {
		return nil, err
	}
	h, err := windows.CreateFile(path, windows.GENERIC_READ|windows.GENERIC_WRITE|windows.DELETE,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, windows.CREATE_NEW,
		windows.FILE_ATTRIBUTE_TEMPORARY|windows.FILE_FLAG_DELETE_ON_CLOSE, 0)
	if err != nil {
		return nil, os.NewSyscallError("CreateFile", err)
	}
	return os.NewFile(uintptr(h), ""), nil
}

func exchange(string, string) error { return errors.ErrUnsupported }
