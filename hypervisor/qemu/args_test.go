package qemu

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden command lines")

// The command lines of all platforms, an option a line.
func TestArgs(t *testing.T) {
	two := []shareDevice{{tag: "working0", end: "fd=9"}, {tag: "working1", end: "fd=10"}}
	base := machine{
		os: "linux", arch: "amd64", accel: "kvm", seccomp: true, name: "sandbox-1", memoryMiB: 1024, cpus: 4,
		kernel: "/proc/self/fd/3", initrd: "/proc/self/fd/4", console: "fd=5", control: "fd=6", monitor: "fd=7" + listens, shares: two,
		network: "fd=8",
	}
	named := base
	named.kernel, named.initrd = "/Users/x/kernel", "/Users/x/initrd"
	named.console, named.control, named.monitor = "path=/s/console", "path=/s/control", "path=/s/monitor"+listens
	named.network = "path=/s/network"
	named.seccomp = false
	cases := map[string]func() machine{
		"linux-amd64-kvm": func() machine { return base },
		"linux-amd64-tcg": func() machine {
			m := base
			m.firmware = "/usr/share/qemu/qboot.rom"
			m.accel, m.cpus, m.shares, m.seccomp, m.extra, m.network = "tcg", 1, two[:1], false, "loglevel=7", ""
			return m
		},
		"linux-arm64-kvm": func() machine { m := base; m.arch = "arm64"; return m },
		"linux-arm64-tcg": func() machine { m := base; m.arch, m.accel, m.cpus = "arm64", "tcg", 1; return m },
		"linux-amd64-disks": func() machine {
			m := base
			m.shares, m.rootfs, m.disk = nil, drive{fd: 8}, drive{fd: 9}
			return m
		},
		"darwin-arm64-hvf": func() machine {
			m := named
			m.os, m.arch, m.accel = "darwin", "arm64", "hvf"
			m.shares = []shareDevice{{tag: "working0", end: "path=/s/working0"}}
			return m
		},
		"windows-amd64-whpx": func() machine {
			m := named
			m.os, m.accel = "windows", "whpx"
			m.kernel, m.initrd = `C:\Users\x, y\kernel`, `C:\Users\x, y\initrd`
			m.console, m.control, m.monitor = "host=127.0.0.1,port=4001", "host=127.0.0.1,port=4002", "host=127.0.0.1,port=4003"
			m.network = "host=127.0.0.1,port=4004"
			m.shares, m.cable = nil, "host=127.0.0.1,port=4005"
			m.disk = drive{path: `C:\Users\x, y\disk.raw`}
			return m
		},
		"darwin-amd64-hvf": func() machine {
			m := named
			m.os, m.accel, m.shares, m.cable = "darwin", "hvf", nil, "path=/s/cable"
			return m
		},
		"darwin-arm64-tcg": func() machine {
			m := named
			m.os, m.arch, m.accel, m.cpus, m.shares, m.cable = "darwin", "arm64", "tcg", 1, nil, "path=/s/cable"
			return m
		},
		"windows-amd64-tcg": func() machine {
			m := named
			m.os, m.accel, m.cpus = "windows", "tcg", 1
			m.console, m.control, m.monitor, m.network = "host=127.0.0.1,port=4001", "host=127.0.0.1,port=4002", "host=127.0.0.1,port=4003", ""
			m.shares, m.cable = nil, "host=127.0.0.1,port=4005"
			return m
		},
		"windows-arm64-whpx": func() machine {
			m := named
			m.os, m.arch, m.accel = "windows", "arm64", "whpx"
			m.shares, m.cable = nil, "host=127.0.0.1,port=4005"
			return m
		},
		"linux-amd64-9p": func() machine { m := base; m.shares, m.cable = nil, "fd=9"; return m },
	}
	for name, m := range cases {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for i, arg := range m().args() {
				switch {
				case i > 0 && strings.HasPrefix(arg, "-"):
					b.WriteString("\n")
				case i > 0:
					b.WriteString(" ")
				}
				b.WriteString(arg)
			}
			b.WriteString("\n")
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("%s:\n%swant:\n%s", file, b.String(), want)
			}
		})
	}
}

func TestValueQuotesCommas(t *testing.T) {
	m := machine{os: "linux", arch: "amd64", accel: "tcg", name: "a,b", cpus: 1, shares: []shareDevice{{tag: "x,y", end: "fd=3"}}}
	line := strings.Join(m.args(), " ")
	for _, want := range []string{"-name a,,b ", ",tag=x,,y,"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
}

// TestInstalled: who has no QEMU is told how to get it on this system, and one that is where its installer puts it needs no PATH.
func TestInstalled(t *testing.T) {
	for goos, want := range map[string][2]string{
		"linux":   {"/usr/libexec/qemu-kvm", "sudo apt install qemu-system-arm"},
		"darwin":  {"/opt/homebrew/bin/qemu-system-aarch64", "brew install qemu"},
		"windows": {`D:\Programs`, "winget install"},
	} {
		where, how := installed(goos, "arm64", func(name string) string { return map[string]string{"ProgramFiles": `D:\Programs`}[name] })
		if !strings.HasPrefix(where, want[0]) || !strings.HasPrefix(how, want[1]) {
			t.Errorf("%s: %s, %s", goos, where, how)
		}
	}
}
