package wine_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/wine"
)

func TestHostPath(t *testing.T) {
	m := wine.New(t, wine.Options{})
	root, err := m.HostPath(`C:\`)
	if err != nil {
		t.Fatal(err)
	}
	for windows, want := range map[string]string{
		`C:\windows\win.ini`:    root + "/windows/win.ini",
		`c:/Windows/WIN.INI`:    root + "/windows/win.ini",
		`C:\new\Name`:           root + "/new/Name",
		`C:\windows\..\..\..\x`: root + "/x",
		`Z:\etc\passwd`:         "/etc/passwd",
		`windows`:               "", `D:\x`: "", `C:x`: "", `\\server\share`: "", "": "",
	} {
		if got, err := m.HostPath(windows); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %s, %v, want %s", windows, got, err, want)
		}
	}
}

func TestOutside(t *testing.T) {
	m := wine.New(t, wine.Options{})
	shell, err := m.Outside(wine.Build(t, "tests/cmd/outside"), "/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	root, err := m.HostPath(`C:\`)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("streams and status", func(t *testing.T) {
		got, code := output(t, m, "in", shell, "-c", `cat; echo " $*"; pwd; id -u >&2; exit 42`, "sh", "a b", `file=C:\windows\win.ini,x="`, "tcp:127.0.0.1:1", `Z:\x`)
		want := "in a b file=" + root + `/windows/win.ini,x=" tcp:127.0.0.1:1 /x` + "\n" + root + "\n"
		if strings.Replace(got, "65534\n", "", 1) != want || len(got) != len(want)+len("65534\n") || code != 42 {
			t.Errorf("status %d, %q, want %q", code, got, want)
		}
	})
	t.Run("a child of a program of Windows", func(t *testing.T) {
		if got, code := output(t, m, "", "cmd", "/c", shell, "-c", "kill -9 $$"); code != 137 {
			t.Errorf("status %d, %q", code, got)
		}
	})
	t.Run("a program that is not there", func(t *testing.T) {
		missing, err := m.Outside(filepath.Join(root, "outside", "sh.exe"), "/nowhere/program")
		if err != nil {
			t.Fatal(err)
		}
		if got, code := output(t, m, "", missing); code != 127 || !strings.Contains(got, "no such file") {
			t.Errorf("status %d, %q", code, got)
		}
	})
	t.Run("dies with its client", func(t *testing.T) {
		fifo := filepath.Join(root, "alive")
		if err := errors.Join(unix.Mkfifo(fifo, 0o666), os.Chmod(fifo, 0o666)); err != nil {
			t.Fatal(err)
		}
		cmd := m.Command(t.Context(), shell, "-c", `exec >"$1"; echo started; exec sleep 100000`, "sh", `C:\alive`)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		alive, err := os.Open(fifo)
		if err != nil {
			t.Fatal(err)
		}
		defer alive.Close()
		if n, err := alive.Read(make([]byte, 16)); n != len("started\n") || err != nil {
			t.Fatal(n, err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if more, err := io.ReadAll(alive); err != nil || len(more) > 0 { // it ends with the only process that writes to it
			t.Errorf("%q, %v", more, err)
		}
	})
}
