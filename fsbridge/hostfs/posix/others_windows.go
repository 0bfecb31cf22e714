package posix

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// OthersCanWrite returns an error that names who besides this user, the administrators and the system can change the file or directory behind
// fd, where owner and mode do not say it, as on Windows: its owner, or who is in its access list.
func OthersCanWrite(fd int) error {
	path, err := PathOf(fd)
	if err != nil {
		return err
	}
	return OthersCanWritePath(path)
}

// OthersCanWritePath is [OthersCanWrite] for a path of Windows.
func OthersCanWritePath(path string) error {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Errorf("who can write there cannot be found out: %w", err)
	}
	me, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return err
	}
	trusted := func(sid *windows.SID) bool {
		return windows.EqualSid(sid, me.User.Sid) || sid.IsWellKnown(windows.WinBuiltinAdministratorsSid) || sid.IsWellKnown(windows.WinLocalSystemSid) ||
			sid.String() == trustedInstaller || sid.String() == ownerRights
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return err
	}
	if !trusted(owner) {
		return fmt.Errorf("it belongs to %s, who could have put anything into it", account(owner))
	}
	dacl, _, err := sd.DACL()
	if err != nil {
		return err
	}
	if dacl == nil {
		return fmt.Errorf("everybody may write there: it has no access list")
	}
	for i := range uint32(dacl.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(dacl, i, &ace); err != nil {
			return err
		}
		if ace.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE || ace.Header.AceFlags&windows.INHERIT_ONLY_ACE != 0 || ace.Mask&toChange == 0 {
			continue
		}
		if sid := (*windows.SID)(unsafe.Pointer(&ace.SidStart)); !trusted(sid) {
			return fmt.Errorf("%s may write there; take that right away (icacls) if you know what is in it", account(sid))
		}
	}
	return nil
}

const (
	trustedInstaller = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464" // owns Windows' own files
	ownerRights      = "S-1-3-4"

	deleteChild = 0x40 // FILE_DELETE_CHILD
	// toChange are the rights by which a file, or what is in a directory, becomes another.
	toChange = windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA | deleteChild | windows.DELETE | windows.WRITE_DAC | windows.WRITE_OWNER | windows.GENERIC_WRITE | windows.GENERIC_ALL
)

// account is a name for people.
func account(sid *windows.SID) string {
	name, domain, _, err := sid.LookupAccount("")
	switch {
	case err != nil:
		return sid.String()
	case domain == "":
		return name
	}
	return domain + `\` + name
}
