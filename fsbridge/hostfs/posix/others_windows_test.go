package posix

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/windows"
)

// TestOthersCanWrite: a file of ours counts until its access list, or its lack of one, lets others write.
func TestOthersCanWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	everybody, err := windows.CreateWellKnownSid(windows.WinWorldSid)
	if err != nil {
		t.Fatal(err)
	}
	me, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		t.Fatal(err)
	}
	set := func(theirs windows.ACCESS_MASK) {
		t.Helper()
		entry := func(sid *windows.SID, rights windows.ACCESS_MASK) windows.EXPLICIT_ACCESS {
			return windows.EXPLICIT_ACCESS{
				AccessPermissions: rights, AccessMode: windows.GRANT_ACCESS,
				Trustee: windows.TRUSTEE{TrusteeForm: windows.TRUSTEE_IS_SID, TrusteeType: windows.TRUSTEE_IS_UNKNOWN, TrusteeValue: windows.TrusteeValueFromSID(sid)},
			}
		}
		entries := []windows.EXPLICIT_ACCESS{entry(me.User.Sid, windows.GENERIC_ALL)}
		if theirs != 0 {
			entries = append(entries, entry(everybody, theirs))
		}
		acl, err := windows.ACLFromEntries(entries, nil)
		if err == nil {
			err = windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, acl, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		theirs windows.ACCESS_MASK
		counts bool
	}{{0, true}, {windows.FILE_GENERIC_READ, true}, {windows.FILE_GENERIC_WRITE, false}, {windows.GENERIC_ALL, false}} {
		set(c.theirs)
		if err := OthersCanWritePath(path); (err == nil) != c.counts {
			t.Errorf("with %#x for everybody: %v", c.theirs, err)
		}
	}
	set(0)
	f, err := Open(path, O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = Close(f) }()
	if err := OthersCanWrite(f); err != nil {
		t.Error(err)
	}
}
