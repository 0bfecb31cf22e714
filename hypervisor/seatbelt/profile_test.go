package seatbelt_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor/seatbelt"
)

// mac resolves what symlinks a Mac has.
func mac(path string) (string, error) {
	switch {
	case strings.HasPrefix(path, "/missing"):
		return "", &fs.PathError{Op: "lstat", Path: path, Err: fs.ErrNotExist}
	case path == "/tmp/s/1": // to be made
		return "", &fs.PathError{Op: "lstat", Path: path, Err: fs.ErrNotExist}
	case strings.HasPrefix(path, "/tmp/"):
		return "/private" + path, nil
	case path == "/opt/bin/x":
		return "/opt/Cellar/x/1/bin/x", nil
	}
	return path, nil
}

func TestText(t *testing.T) {
	p := seatbelt.Profile{
		Execute: []string{"/opt/bin/x"}, Read: []string{"/Users/a b/kernel"}, Write: []string{"/tmp/disk"}, Connect: []string{"/tmp/s/0"}, Listen: []string{"/tmp/s/1"},
		Sockets: []string{"/run/x"}, SharedMemory: []string{`^/x-[0-9]+[.]y$`}, Hypervisor: true, Children: true,
	}
	got, err := p.Text(mac)
	want := `(version 1)
(deny default)
(import "system.sb")
(allow process-info* signal (target self))
(allow sysctl-read)
(allow process-exec (literal "/opt/Cellar/x/1/bin/x"))
(allow process-exec (literal "/opt/bin/x"))
(allow file-read* (literal "/opt/Cellar/x/1/bin/x"))
(allow file-read* (literal "/opt/bin/x"))
(allow file-read* (subpath "/Users/a b/kernel"))
(allow file-read* file-write* (subpath "/private/tmp/disk"))
(allow file-read* file-write* (subpath "/tmp/disk"))
(allow file-read* file-write* (literal "/private/tmp/s/1"))
(allow file-read* file-write* (literal "/tmp/s/1"))
(allow system-socket (socket-domain AF_UNIX))
(allow network-outbound (remote unix-socket (path-literal "/private/tmp/s/0")))
(allow network-outbound (remote unix-socket (path-literal "/tmp/s/0")))
(allow network-bind network-inbound (local unix-socket (path-literal "/private/tmp/s/1")))
(allow network-bind network-inbound (local unix-socket (path-literal "/tmp/s/1")))
(allow network-outbound (remote unix-socket (subpath "/run/x")))
(allow network-bind network-inbound (local unix-socket (subpath "/run/x")))
(allow ipc-posix-shm* (ipc-posix-name-regex #"^/x-[0-9]+[.]y$"))
(allow signal (target children))
(allow iokit-open (iokit-registry-entry-class "AppleHVClient"))
(allow file-read-metadata (literal "/"))
(allow file-read-metadata (literal "/Users"))
(allow file-read-metadata (literal "/Users/a b"))
(allow file-read-metadata (literal "/opt"))
(allow file-read-metadata (literal "/opt/Cellar"))
(allow file-read-metadata (literal "/opt/Cellar/x"))
(allow file-read-metadata (literal "/opt/Cellar/x/1"))
(allow file-read-metadata (literal "/opt/Cellar/x/1/bin"))
(allow file-read-metadata (literal "/opt/bin"))
(allow file-read-metadata (literal "/private"))
(allow file-read-metadata (literal "/private/tmp"))
(allow file-read-metadata (literal "/private/tmp/s"))
(allow file-read-metadata (literal "/run"))
(allow file-read-metadata (literal "/tmp"))
(allow file-read-metadata (literal "/tmp/s"))
`
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant:\n%s", err, got, want)
	}
}

// TestNothingElse: what a profile does not name it does not allow: an empty one allows nothing of files, of the network and of other programs.
func TestNothingElse(t *testing.T) {
	got, err := seatbelt.Profile{}.Text(mac)
	if err != nil || strings.Contains(got, "file-") || strings.Contains(got, "network") || strings.Contains(got, "exec") || !strings.Contains(got, "(deny default)") {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestNoNameEndsARule: a path with quotes, backslashes and parentheses is a path; what a profile cannot have is an error.
func TestNoNameEndsARule(t *testing.T) {
	got, err := seatbelt.Profile{Write: []string{`/x")) (allow network*) ("\`}}.Text(mac)
	if err != nil || !strings.Contains(got, `(allow file-read* file-write* (subpath "/x\")) (allow network*) (\"\\"))`) {
		t.Errorf("%v\n%s", err, got)
	}
	for _, path := range []string{"/a\nb", "/a\x00", "relative", "/a/../b", ""} {
		if _, err := (seatbelt.Profile{Read: []string{path}}).Text(mac); err == nil {
			t.Errorf("%q was taken", path)
		}
	}
	if _, err := (seatbelt.Profile{Read: []string{"/missing/x"}}).Text(mac); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}

func TestLine(t *testing.T) {
	p := seatbelt.Profile{Read: []string{"/r"}}
	line, err := p.Line(mac, "/opt/bin/x", []string{"-a", "b c"})
	if err != nil || len(line) != 6 || !slices.Equal(slices.Delete(slices.Clone(line), 2, 3), []string{seatbelt.Program, "-p", "/opt/bin/x", "-a", "b c"}) {
		t.Fatalf("%q, %v", line, err)
	}
	if !strings.Contains(line[2], `(allow process-exec (literal "/opt/bin/x"))`) || len(p.Execute) != 0 {
		t.Errorf("the profile: %s", line[2])
	}
}
