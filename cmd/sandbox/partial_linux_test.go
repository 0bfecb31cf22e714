package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/screen"
)

// pipe runs a shell's line on a terminal, with "$SB" the program.
func (d *desk) pipe(line string) *screen.Screen {
	d.t.Helper()
	cmd := d.sandbox()
	shell := exec.Command("bash", "--norc", "-c", line)
	shell.Dir, shell.Env = cmd.Dir, append(cmd.Env, "SB="+cmd.Path)
	return screen.On(d.t, shell)
}

// isolations are those that a command can be run with here.
func isolations(t *testing.T) [][]string {
	list := [][]string{{"--bridge", "mediated"}, {"--bridge", "fuse"}}
	if err := newDesk(t).sandbox("run", "--isolation", "landlock", "--", "true").Run(); err == nil {
		list = append(list, []string{"--isolation", "landlock"})
	}
	return list
}

// TestW2TypedLater: what is typed after a command has ended is the shell's, also if the command had only its stdin on the terminal and has left
// a process behind that goes on reading.
func TestW2TypedLater(t *testing.T) {
	for _, with := range isolations(t) {
		t.Run(strings.Join(with, " "), func(t *testing.T) {
			d := newDesk(t)
			d.write("evil", "exec 3<&0; setsid sh -c 'cat <&3 >>stolen; echo over >>stolen' >/dev/null 2>&1 & readlink /proc/self/fd/0 >where; echo left")
			d.live(with...)
			s := d.pipe(`"$SB" run -- sh evil | cat; echo ready; read x; echo "shell got $x"; stat -L -c %d:%i:%t:%T /dev/stdin`)
			s.Expect("ready")
			s.Send("s3cr3t\r")
			s.Expect("shell got s3cr3t\r\n")
			s.Wait()
			if b, err := os.ReadFile(filepath.Join(d.dir, "stolen")); err == nil && strings.Contains(string(b), "s3cr3t") {
				t.Errorf("stolen: %q", b)
			}
		})
	}
}

// TestW2Streams: each stream that is a terminal is another one inside, and the others are what they are; joined, and as a session of its own.
func TestW2Streams(t *testing.T) {
	const kinds = `sh -c 'exec 3>kinds; for i in 0 1 2; do if test -t $i; then echo $i terminal $(stat -L -c %d:%i /proc/$$/fd/$i) >&3; else echo $i other >&3; fi; done'`
	for _, c := range []struct{ line, want string }{
		{`"$SB" run -- ` + kinds + ` | cat`, "terminal other terminal"},
		{`"$SB" run -- ` + kinds + ` 2>../errors`, "terminal terminal other"},
		{`echo x | "$SB" run -- ` + kinds, "other terminal terminal"},
		{`"$SB" run -- ` + kinds + ` >../out 2>&1`, "terminal other other"},
		{`"$SB" run -- ` + kinds + ` </dev/null >../out`, "other other terminal"},
		{`"$SB" run -- ` + kinds, "terminal terminal terminal"},
	} {
		for _, joined := range []bool{false, true} {
			d := newDesk(t)
			if joined {
				d.live()
			}
			s := d.pipe(`stat -L -c %d:%i /dev/tty >../ours; ` + c.line)
			s.Wait()
			ours, err := os.ReadFile(filepath.Join(d.dir, "..", "ours"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(d.read("kinds")) {
				fields := strings.Fields(line)
				got = append(got, fields[1])
				if len(fields) > 2 && fields[2] == strings.TrimSpace(string(ours)) {
					t.Errorf("%s: the user's own terminal: %s", c.line, line)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s, joined %v: %q", c.line, joined, got)
			}
		}
	}
}

// TestW2Partial: a terminal that is some of the streams behaves as the user's own would: lines, the end of file, echo and its absence, single
// keys, signals, size; what goes to a pipe is unchanged; and the modes are as before.
func TestW2Partial(t *testing.T) {
	d := newDesk(t)
	d.live()
	t.Run("lines", func(t *testing.T) {
		s := d.pipe(`"$SB" run -- sh -c 'echo ready >&2; read x; echo "got $x" >&2; cat' | od -An -c`)
		s.Expect("ready")
		s.Send("hello\r")
		s.Expect("hello\r\ngot hello\r\n") // once
		s.Send("more\r\x04")
		s.Expect(`m   o   r   e  \n` + "\r\n")
		s.Wait()
	})
	t.Run("no echo", func(t *testing.T) {
		s := d.pipe(`x=$("$SB" run -- sh -c 'stty -echo; printf pass: >&2; read p; stty echo; echo "$p"'); echo "[$x]"; stty -a | grep -o '[-]*echo '`)
		s.Expect("pass:")
		without(t, s, unix.ECHO)
		s.Send("hush\r")
		s.Expect("[hush]\r\n")
		s.Expect("echo")
		s.Wait()
	})
	t.Run("keys", func(t *testing.T) {
		s := d.pipe(`x=$("$SB" run -- sh -c 'stty raw -echo; printf key: >&2; k=$(dd bs=1 count=1 2>/dev/null); stty sane; echo "$k"'); echo "[$x]"; stty -a | grep -o '[-]*icanon'`)
		s.Expect("key:")
		without(t, s, unix.ICANON)
		s.Send("q")
		s.Expect("[q]\r\n")
		s.Expect("icanon")
		if strings.Contains(s.Text(), "-icanon") {
			t.Error("the terminal was left raw")
		}
		s.Wait()
	})
	t.Run("signals", func(t *testing.T) {
		s := d.pipe(`trap : INT; "$SB" run -- sh -c 'trap "echo caught >&2; exit 5" INT; echo ready >&2; while :; do sleep 0.01; done' | cat; echo "${PIPESTATUS[0]}"`)
		s.Expect("ready")
		s.Send("\x03")
		s.Expect("caught")
		s.Expect("5\r\n")
		s.Wait()
	})
	t.Run("another program's keys", func(t *testing.T) {
		s := d.pipe(`"$SB" run -- sh -c 'echo up; cat >/dev/null' | sh -c 'read x; stty -icanon -echo </dev/tty; echo ready; k=$(dd bs=1 count=3 2>/dev/null </dev/tty); stty sane </dev/tty; echo "[$k]"'`)
		s.Expect("ready")
		s.Send("abc")
		s.Expect("[abc]")
		s.Send("\x04")
		s.Wait()
	})
	t.Run("size", func(t *testing.T) {
		s := d.pipe(`stty rows 31 cols 97; echo x | "$SB" run -- sh -c 'stty size <&1; echo end'`)
		s.Expect("31 97")
		s.Expect("end")
		s.Wait()
	})
}

// TestD3DevTTY: a command whose stdin is no terminal asks on /dev/tty: for keys, for what is not echoed, for a line. What is typed and nobody asks for
// is the shell's.
func TestD3DevTTY(t *testing.T) {
	for _, with := range isolations(t) {
		d := newDesk(t)
		d.live(with...)
		t.Run("keys "+strings.Join(with, " "), func(t *testing.T) {
			s := d.pipe(`x=$(echo one | "$SB" run -- sh -c 'stty raw -echo </dev/tty; printf key: >/dev/tty; k=$(dd bs=1 count=1 2>/dev/null </dev/tty); stty sane </dev/tty; cat; echo "$k"'); echo "[$x]"; stty -a | grep -o '[-]*icanon'`)
			s.Expect("key:")
			without(t, s, unix.ICANON)
			s.Send("q")
			s.Expect("[one\r\nq]\r\n")
			s.Expect("icanon")
			if strings.Contains(s.Text(), "-icanon") {
				t.Error("the terminal was left raw")
			}
			s.Wait()
		})
		t.Run("no echo "+strings.Join(with, " "), func(t *testing.T) {
			s := d.pipe(`echo one | "$SB" run -- sh -c 'stty -echo </dev/tty; printf pass >/dev/tty; read p </dev/tty; stty echo </dev/tty; read x; echo "[$p $x]"'`)
			s.Expect("pass")
			without(t, s, unix.ECHO)
			s.Send("hush\r")
			s.Expect("[hush one]\r\n")
			s.Wait()
		})
		t.Run("a line "+strings.Join(with, " "), func(t *testing.T) {
			s := d.pipe(`echo one | "$SB" run -- sh -c 'printf "name: " >/dev/tty; read p </dev/tty; read x; echo "[$p $x]"'`)
			s.Expect("name: ")
			s.Send("me\r")
			s.Expect("me\r\n[me one]\r\n")
			s.Wait()
		})
		t.Run("typed ahead "+strings.Join(with, " "), func(t *testing.T) {
			s := d.pipe(`"$SB" run -- sh -c 'printf "50 %%"; until [ -e go ]; do sleep 0.01; done; echo; rm go' </dev/null; read x; echo "shell got $x"`)
			s.Expect("50 %")
			s.Send("mine\r")
			s.Expect("mine\r\n")
			d.write("go", "")
			s.Expect("shell got mine\r\n")
			s.Wait()
		})
	}
}

// without waits until the user's terminal does not do something.
func without(t *testing.T, s *screen.Screen, flag uint32) {
	t.Helper()
	for end := time.Now().Add(screen.Patience); s.Modes().Lflag&flag != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the terminal still has %x", flag)
		}
	}
}

// TestW6Refused: a directory is no standard input, in a session of its own, joined, and behind Landlock.
func TestW6Refused(t *testing.T) {
	for _, with := range isolations(t) {
		for _, joined := range []bool{false, true} {
			d := newDesk(t)
			args := with
			if joined {
				d.live(with...)
				args = nil
			}
			dir, err := os.Open("/")
			if err != nil {
				t.Fatal(err)
			}
			cmd := d.sandbox(append(append([]string{"run"}, args...), "--", "touch", "made")...)
			cmd.Stdin = dir
			out, err := cmd.CombinedOutput()
			if exitOf(t, err) != 125 || !strings.Contains(string(out), "standard input is a directory") || d.exists("made") {
				t.Errorf("%q, joined %v: %v, %s", with, joined, err, out)
			}
			_ = dir.Close()
		}
	}
}
