package rights

import "golang.org/x/sys/windows"

// EverybodyWrites lets everybody read and write a file, and change a directory.
func EverybodyWrites(path string) error { return SetEverybody(path, windows.GENERIC_ALL) }

// SetEverybody makes a list of access that gives this user all rights, and everybody these.
func SetEverybody(path string, rights windows.ACCESS_MASK) error {
	everybody, err := windows.CreateWellKnownSid(windows.WinWorldSid)
	if err != nil {
		return err
	}
	me, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return err
	}
	entry := func(sid *windows.SID, rights windows.ACCESS_MASK) windows.EXPLICIT_ACCESS {
		return windows.EXPLICIT_ACCESS{
			AccessPermissions: rights, AccessMode: windows.GRANT_ACCESS,
			Trustee: windows.TRUSTEE{TrusteeForm: windows.TRUSTEE_IS_SID, TrusteeType: windows.TRUSTEE_IS_UNKNOWN, TrusteeValue: windows.TrusteeValueFromSID(sid)},
		}
	}
	entries := []windows.EXPLICIT_ACCESS{entry(me.User.Sid, windows.GENERIC_ALL)}
	if rights != 0 {
		entries = append(entries, entry(everybody, rights))
	}
	acl, err := windows.ACLFromEntries(entries, nil)
	if err != nil {
		return err
	}
	const what = windows.DACL_SECURITY_INFORMATION | windows.PROTECTED_DACL_SECURITY_INFORMATION
	return windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, what, nil, nil, acl, nil)
}
