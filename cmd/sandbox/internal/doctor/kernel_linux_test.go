package doctor

import (
	"strings"
	"testing"
)

func TestKernelFinding(t *testing.T) {
	for _, c := range []struct {
		release       string
		lima          bool
		state, detail string
	}{
		{"6.12.43+deb13-amd64", false, "ok", "Linux 6.12.43+deb13-amd64"},
		{"5.4.0-1", false, "fail", "Linux 5.4.0-1"},
		{"4.4.0-19041-Microsoft", false, "fail", "WSL 1"},
		{"5.10.16.3-microsoft-standard-WSL2", false, "fail", "of WSL 2"},
		{"6.6.87.2-microsoft-standard-WSL2", false, "ok", "of WSL 2"},
		{"6.8.0-49-generic", true, "ok", "in Lima"},
	} {
		f := kernelFinding(c.release, c.lima)
		if f.State != c.state || !strings.Contains(f.Detail, c.detail) || (f.State == "fail") != (f.Advice != "") {
			t.Errorf("%s: %+v", c.release, f)
		}
	}
}

// TestServedFinding: the lines are what WSL, Lima and NFS show.
func TestServedFinding(t *testing.T) {
	const mountinfo = `22 1 8:32 / / rw,relatime shared:1 - ext4 /dev/sdc rw,discard
60 22 0:50 / /mnt/c rw,noatime - 9p C:\134 rw,dirsync,aname=drvfs;path=C:\;uid=1000;symlinkroot=/mnt/,mmap,access=client
61 22 0:51 / /mnt/d rw,noatime - virtiofs drvfsaD rw,uid=1000,drvfs
62 22 0:52 / /Users/me rw,relatime shared:7 master:2 - virtiofs mount0 rw
63 22 0:53 / /home/me/mac rw - fuse.sshfs :/Users/me rw,user_id=1000
64 22 0:54 / /srv/a\040b rw - nfs4 server:/x rw,vers=4.2
65 64 8:33 / /srv/a\040b/local rw - ext4 /dev/sdd rw
66 22 0:55 / /broken rw -
`
	for folder, want := range map[string]string{
		"/home/me/work": "", "/mnt/c/work": "drive of Windows", "/mnt/d": "drive of Windows", "/Users/me/work": "another system",
		"/home/me/mac": "another system", "/srv/a b/x": "another system", "/srv/a b/local/x": "", "/broken/x": "", "/mnt/cd": "",
	} {
		f, served := servedFinding(mountinfo, folder)
		if served != (want != "") || !strings.Contains(f.Detail, want) {
			t.Errorf("%s: %v, %+v", folder, served, f)
		}
	}
}
