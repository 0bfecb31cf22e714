package qemu

import (
	"slices"
	"strings"
	"testing"
)

// TestBehindSeatbelt: behind the wall QEMU has its command line, its own files and its sockets, and nothing of the user's.
func TestBehindSeatbelt(t *testing.T) {
	m := machine{
		os: "darwin", arch: "arm64", accel: "hvf", name: "sandbox-1", memoryMiB: 1024, cpus: 4, kernel: "/Users/x/Library/Caches/kernel", initrd: "/Users/x/Library/Caches/initrd",
		console: "path=/s/0", control: "path=/s/1,,x", monitor: "path=/s/monitor" + listens, cable: "path=/s/2", disk: drive{path: "/Users/x/state/disk.raw"},
	}
	plain := func(name string) (string, error) { return name, nil }
	line, err := m.behindSeatbelt(plain, "/opt/homebrew/bin/qemu-system-aarch64", "/Users/x")
	if err != nil {
		t.Fatal(err)
	}
	if want := append([]string{"/usr/bin/sandbox-exec", "-p", line[2], "/opt/homebrew/bin/qemu-system-aarch64"}, m.args()...); !slices.Equal(line, want) {
		t.Errorf("%q\nwant %q", line, want)
	}
	var rules []string
	for rule := range strings.Lines(line[2]) {
		if !strings.Contains(rule, "file-read-metadata") { // of directories on the way
			rules = append(rules, strings.TrimSpace(rule))
		}
	}
	want := `(version 1)
(deny default)
(import "system.sb")
(allow process-info* signal (target self))
(allow sysctl-read)
(allow process-exec (literal "/opt/homebrew/bin/qemu-system-aarch64"))
(allow file-read* (literal "/opt/homebrew/bin/qemu-system-aarch64"))
(allow file-read* (subpath "/Users/x/Library/Caches/initrd"))
(allow file-read* (subpath "/Users/x/Library/Caches/kernel"))
(allow file-read* (subpath "/opt/homebrew"))
(allow file-read* file-write* (subpath "/Users/x/state/disk.raw"))
(allow file-read* file-write* (literal "/s/monitor"))
(allow system-socket (socket-domain AF_UNIX))
(allow network-outbound (remote unix-socket (path-literal "/s/0")))
(allow network-outbound (remote unix-socket (path-literal "/s/1,x")))
(allow network-outbound (remote unix-socket (path-literal "/s/2")))
(allow network-bind network-inbound (local unix-socket (path-literal "/s/monitor")))
(allow ipc-posix-shm* (ipc-posix-name-regex #"^/qemu-[0-9]+-shm-[0-9]+$"))
(allow iokit-open (iokit-registry-entry-class "AppleHVClient"))`
	if got := strings.Join(rules, "\n"); got != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
	m.accel = "tcg"
	if line, err = m.behindSeatbelt(plain, "/opt/homebrew/bin/qemu-system-aarch64", "/Users/x"); err != nil || strings.Contains(line[2], "iokit") {
		t.Errorf("emulated: %v\n%s", err, line[2])
	}
}

func TestInstallation(t *testing.T) {
	for program, want := range map[string]string{
		"/opt/homebrew/bin/qemu-system-aarch64": "/opt/homebrew", "/usr/local/bin/qemu": "/usr/local", "/opt/local/bin/qemu": "/opt/local",
		"/opt/homebrew/Cellar/qemu/9.2.0/bin/qemu": "/opt/homebrew", "/Users/x/qemu/bin/qemu": "/Users/x/qemu", "/Users/x/build/qemu": "/Users/x/build",
		"/Users/x/bin/qemu": "", "/Users/bin/qemu": "", "/Users/x/qemu": "", "/bin/qemu": "/bin", "/Cellar/qemu": "",
	} {
		if got := strings.Join(installation(program, "/Users/x"), " "); got != want {
			t.Errorf("%s: %q, want %q", program, got, want)
		}
	}
}
