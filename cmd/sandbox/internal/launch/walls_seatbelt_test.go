//go:build unix

package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServerProfile: the supervisor's own profile has its folders, its log, its state and its sockets, and neither other files of the user's nor other programs, nor a network that
// the session has not.
func TestServerProfile(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var f sessionFiles
	for _, dir := range []string{"work", "state", "run", "images", "library", ".ssh"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(home, name) }
	f.write, f.read = []string{at("work"), at("state"), at("run"), "", at("gone")}, []string{at("images"), at("library"), at("gone/too")}
	got, err := serverProfile(f, at("run"), false).Text(filepath.EvalSymlinks)
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for rule := range strings.Lines(got) {
		if !strings.Contains(rule, "file-read-metadata") { // of directories on the way
			rules = append(rules, strings.TrimSpace(rule))
		}
	}
	want := strings.ReplaceAll(`(version 1)
(deny default)
(import "system.sb")
(allow process-info* signal (target self))
(allow sysctl-read)
(allow file-read* (subpath "HOME/images"))
(allow file-read* (subpath "HOME/library"))
(allow file-read* file-write* (subpath "HOME/run"))
(allow file-read* file-write* (subpath "HOME/state"))
(allow file-read* file-write* (subpath "HOME/work"))
(allow system-socket (socket-domain AF_UNIX))
(allow network-outbound (remote unix-socket (subpath "HOME/run")))
(allow network-bind network-inbound (local unix-socket (subpath "HOME/run")))
(allow signal (target children))
(allow file-read* file-write* file-ioctl (literal "/dev/tty") (regex #"^/dev/ttys[0-9]+$"))`, "HOME", home)
	if text := strings.Join(rules, "\n"); text != want {
		t.Errorf("%s\nwant:\n%s", text, want)
	}
	if with, err := serverProfile(f, at("run"), true).Text(filepath.EvalSymlinks); err != nil || !strings.Contains(with, "(allow network* system-socket)\n(system-network)\n") {
		t.Error(fmt.Sprint("with a network: ", err, "\n", with))
	}
}
