package hypervisor

import "testing"

func TestGuestPath(t *testing.T) {
	for host, want := range map[string]string{
		`C:\Users\x y\work`:       "/mnt/c/Users/x y/work",
		`d:\`:                     "/mnt/d",
		`\\?\C:\long\path`:        "/mnt/c/long/path",
		`\\server\share\work`:     "/mnt/unc/server/share/work",
		`\\?\UNC\server\share\wo`: "/mnt/unc/server/share/wo",
		`/already/there`:          "/already/there",
	} {
		if got := guestPath("windows", host); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
		if got := guestPath("linux", host); got != host {
			t.Errorf("on Linux %s is %s", host, got)
		}
	}
}
