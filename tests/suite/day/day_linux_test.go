package day

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/screen"
)

// patience only ends a test that has failed.
const patience = 5 * time.Minute

// day is a folder in which somebody works, and how he starts programs.
type day struct {
	*drive.Sandbox
	bin string // where `box` is
	// start and stop start a session, and end it; natively nothing.
	start, stop string
}

// each does something natively, and then over each bridge, in turns: a commit has one bridge as root, and the other one as the user.
func each(t *testing.T, do func(t *testing.T, d *day)) {
	t.Run("natively", func(t *testing.T) { do(t, newDay(t, "natively", files)) })
	turn := require.Turn(t)
	for _, how := range []string{"mediated", "fuse"} {
		if turn() {
			t.Run(how, func(t *testing.T) { do(t, newDay(t, how, files)) })
		}
	}
}

// newDay makes the folder, and `box` for one way to start programs: natively, or a bridge.
func newDay(t *testing.T, how string, files func(testing.TB, string)) *day {
	t.Helper()
	d := &day{Sandbox: drive.New(t, files)}
	d.bin = filepath.Join(d.State, "bin")
	box := "#!/bin/sh\nexec \"$@\"\n"
	if how != "natively" {
		require.FUSE(t)
		require.UserNamespaces(t)
		where := fmt.Sprintf("--working-dir %s --undo-dir %s", d.Dir, d.Undo)
		box = fmt.Sprintf("#!/bin/sh\nexec '%s' run --bridge %s %s -- \"$@\"\n", d.Program, how, where)
		d.start, d.stop = fmt.Sprintf("%s start --bridge %s %s", d.Program, how, where), fmt.Sprintf("%s stop %s", d.Program, where)
	}
	if err := os.MkdirAll(d.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.bin, "box"), []byte(box), 0o755); err != nil {
		t.Fatal(err)
	}
	return d
}

// files are what is in the folder.
func files(t testing.TB, root string) {
	lines := ""
	for i := range 200 {
		lines += fmt.Sprintf("line %d.\n", i+1)
	}
	for name, text := range map[string]string{
		"a":     "b\na\n",
		"lines": lines,
		"Makefile": "all:\n\t+@box $(MAKE) --no-print-directory one two\n" +
			"one two:\n\t@echo $@\n",
		"build.mk": "prog: main.o one.o\n\tgcc -o $@ $^\n%.o: %.c\n\tgcc -c -o $@ $<\n",
		"main.c":   "int one(void);\nint main(void) { return one() - 1; }\n",
		"one.c":    "int one(void) { return 1; }\n",
		"pool.py":  "from multiprocessing import Pool\nif __name__ == '__main__':\n    with Pool(2) as p: print(sum(p.map(abs, range(10))))\n",
		"sign.sh": "git init -q r && ssh-keygen -q -t ed25519 -N '' -f key && cd r && git config user.name a && git config user.email a@example.com &&\n" +
			"git -c gpg.format=ssh -c user.signingkey=../key commit -q -S --allow-empty -m x && git cat-file commit HEAD | grep -c 'BEGIN SSH SIGNATURE'\n",
		"pipe.sh": "$START\nline='seq 3'; for i in $(seq 70); do line=\"$line | box cat\"; done; eval \"$line\"\n$STOP\n", // in a session that is there: so many would take their time to agree who starts it
		"rows.sh": "sqlite3 d 'create table t(x)'\nfor i in 1 2 3 4; do\n  sqlite3 -cmd '.timeout 200000' d 'insert into t values(1)' &\n" +
			"  box sqlite3 -cmd '.timeout 200000' d 'insert into t values(1)' &\ndone\nwait\nsqlite3 d 'select count(*) from t'\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// command is a program of the caller's.
func (d *day) command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := d.Bare(ctx)
	cmd.Path, cmd.Args, cmd.Err = argv[0], argv, nil
	if path, err := exec.LookPath(argv[0]); err == nil {
		cmd.Path = path
	}
	cmd.Env = append(cmd.Env, "PATH="+d.bin+":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "TERM=xterm", "START="+d.start, "STOP="+d.stop, "SHELL=/bin/sh", "ENV=", "BASH_ENV=")
	return cmd
}

// Lines of a shell print what they print natively, and end as they do.
func TestLines(t *testing.T) {
	posix := []string{"bash", "zsh", "dash"}
	for _, c := range []struct {
		name, line string
		shells     []string
		programs   string // program:package, beside the shell
		out        string
		code       int
	}{
		{"a pipeline of two", `box seq 3 | box sort -r`, append(posix, "fish"), "", "3\n2\n1\n", 0},
		{"a long pipeline", `sh pipe.sh`, []string{"dash"}, "", "1\n2\n3\n", 0},
		{"process substitution", `box diff a <(box sort a)`, []string{"bash", "zsh"}, "", "1d0\n< b\n2a2\n> b\n", 1},
		{"an inherited file", `exec 9>log; box sh -c 'echo text >&9'; exec 9>&-; cat log`, posix, "", "text\n", 0},
		{"closed descriptors", `box echo text <&- 2>&-`, posix, "", "text\n", 0},
		{"a jobserver", `make -j2 all 2>&1 | sort`, []string{"bash"}, "make:make", "one\ntwo\n", 0},
		{"death by a signal", `box sh -c 'kill -TERM $$'; echo $?`, posix, "", "143\n", 0},
		{"nohup", `nohup box sh -c 'kill -HUP $$; echo alive' 2>/dev/null`, []string{"dash"}, "", "alive\n", 0},
		{"status of a pipeline", `box sh -c 'exit 3' | box cat; echo ${PIPESTATUS[*]}`, []string{"bash"}, "", "3 0\n", 0},
		{"python's processes", `box python3 pool.py`, []string{"dash"}, "python3:python3", "45\n", 0},
		{"python's environments", `box python3 -m venv --without-pip v && box v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'`, []string{"dash"}, "python3:python3", "True\n", 0},
		{"a build with several jobs", `box make -s -j2 -f build.mk && ./prog && box ./prog && echo built`, []string{"dash"}, "make:make gcc:gcc", "built\n", 0},
		{"a named pipe of one's own", `box sh -c 'mkfifo p; (echo text >p &); cat p'`, posix, "", "text\n", 0},
		{"memory that processes share", `box python3 -c 'from multiprocessing import shared_memory as s; m = s.SharedMemory(create=True, size=9); m.buf[0] = 3; print(m.buf[0]); m.close(); m.unlink()'`, []string{"dash"}, "python3:python3", "3\n", 0},
		{"files that are watched", `box node -e 'require("fs").watch(".", () => { console.log("seen"); process.exit(0) }); setInterval(() => require("fs").writeFileSync("seen", "x"), 50)'`, []string{"dash"}, "node:nodejs", "seen\n", 0},
		{"node", `box node -e 'console.log(6 * 7)'`, []string{"dash"}, "node:nodejs", "42\n", 0},
		{"a signature with a key", `box sh sign.sh`, []string{"dash"}, "git:git ssh-keygen:openssh-client", "1\n", 0},
		{"rows of a database from both sides", `sh rows.sh`, []string{"dash"}, "sqlite3:sqlite3", "8\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, d *day) {
				for _, p := range strings.Fields(c.programs) {
					name, pkg, _ := strings.Cut(p, ":")
					require.Program(t, name, pkg)
				}
				for _, shell := range c.shells {
					require.Program(t, shell, shell)
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					cmd := d.command(ctx, append(bare(shell), "-c", c.line)...)
					var stdout, stderr bytes.Buffer
					cmd.Stdout, cmd.Stderr = &stdout, &stderr
					code := drive.ExitCode(t, cmd.Run())
					cancel()
					if stdout.String() != c.out || code != c.code {
						t.Errorf("%s: exit status %d, want %d\nstdout: %q, want %q\nstderr: %s", shell, code, c.code, &stdout, c.out, &stderr)
					}
				}
			})
		})
	}
}

// bare is a shell without anybody's settings.
func bare(shell string) []string {
	return append([]string{shell}, map[string][]string{"bash": {"--norc", "--noprofile"}, "zsh": {"-f"}, "fish": {"--no-config"}}[shell]...)
}

// screen starts a program on a terminal.
func (d *day) screen(t *testing.T, argv ...string) *screen.Screen {
	t.Helper()
	return screen.On(t, d.command(context.WithoutCancel(t.Context()), argv...))
}

// Ctrl-C while a script runs one command after the other ends the script.
func TestInterruptEndsALoop(t *testing.T) {
	each(t, func(t *testing.T, d *day) {
		for _, shell := range []string{"bash", "zsh", "dash"} {
			require.Program(t, shell, shell)
			s := d.screen(t, append(bare(shell), "-c", `for i in 1 2 3; do box sh -c 'echo begun; exec sleep 1000'; done; echo finished`)...)
			s.Expect("begun")
			s.Send("\x03")
			if code := s.Wait(); code != 130 || strings.Contains(s.Text(), "begun") || strings.Contains(s.Text(), "finished") {
				t.Errorf("%s: exit status %d, want 130; on the screen:\n%q", shell, code, s.Text())
			}
		}
	})
}

// TestD3Jobs: Ctrl-Z gives the shell back and fg goes on, also with a command that has joined a session, and in a shell that runs inside. What else is done in the
// session meanwhile is not stopped.
func TestD3Jobs(t *testing.T) {
	each(t, func(t *testing.T, d *day) {
		s := d.screen(t, append(bare("bash"), "-i")...)
		s.Send("PS1='> '\r")
		ask := `box sh -c 'echo be""gun; read x; echo "go"t $x; exit 7'` + "\r"
		stop := func(shell string) {
			t.Helper()
			s.Send(ask)
			s.Expect("begun\r\n")
			s.Send("\x1a")
			s.Expect(shell)
		}
		goOn := func() {
			t.Helper()
			s.Send("fg\r")
			s.Expect("exit 7'\r\n") // the shell names the job
			s.Send("text\r")
			s.Expect("got text\r\n")
			s.Expect("> ")
			s.Send("echo status $?\r")
			s.Expect("status 7\r\n")
			s.Expect("> ")
		}
		for range 2 {
			stop("Stopped")
			s.Send("stty -a | grep -o ' icanon'; jobs | grep -c 'box\\|sandbox'\r")
			s.Expect(" icanon\r\n")
			s.Expect("1\r\n")
			s.Send(`box sh -c 'echo >made; echo o""ther'` + "\r")
			s.Expect("other\r\n")
			s.Expect("> ") // what is typed before is the command's
			goOn()
			s.Send("eval \"$START\"; echo star\"\"ted\r") // the second time, in this session
			s.Expect("started\r\n")
		}
		s.Send("box bash --norc --noprofile -i\r")
		s.Send("PS1=in\"\"'side> '; sh -c 'echo be\"\"gun; read x; echo \"go\"t $x; exit 7'\r")
		s.Expect("begun\r\n")
		s.Send("\x1a")
		s.Expect("Stopped")
		s.Expect("inside> ")
		goOn()
		s.Send("exit 5\r")
		s.Expect("> ")
		s.Send("eval \"$STOP\"; exit $?\r")
		if code := s.Wait(); code != 0 {
			t.Errorf("exit status %d; on the screen:\n%q", code, s.Text())
		}
	})
}

// A program whose input is a pipe and whose output is captured asks on the terminal.
func TestFzf(t *testing.T) {
	require.Program(t, "fzf", "fzf")
	each(t, func(t *testing.T, d *day) {
		s := d.screen(t, "sh", "-c", `x=$(printf 'one\ntwo\n' | box fzf); echo "picked $x."`)
		s.Expect("2/2")
		s.Send("two")
		s.Expect("1/2")
		s.Send("\r")
		s.Expect("picked two.")
		if code := s.Wait(); code != 0 {
			t.Errorf("exit status %d", code)
		}
	})
}

func TestLess(t *testing.T) {
	require.Program(t, "less", "less")
	each(t, func(t *testing.T, d *day) {
		s := d.screen(t, filepath.Join(d.bin, "box"), "less", "lines")
		s.Expect("line 3.")
		s.Send("G")
		s.Expect("line 200.")
		s.Send("q")
		if code := s.Wait(); code != 0 {
			t.Errorf("exit status %d", code)
		}
	})
}

func TestVim(t *testing.T) {
	require.Program(t, "vim", "vim")
	each(t, func(t *testing.T, d *day) {
		s := d.screen(t, filepath.Join(d.bin, "box"), "vim", "-u", "NONE", "-i", "NONE", "lines")
		s.Expect("line 3.")
		s.Send("Onew\x1b:wq\r")
		if code := s.Wait(); code != 0 {
			t.Errorf("exit status %d; on the screen:\n%q", code, s.Text())
		}
		if text, err := os.ReadFile(filepath.Join(d.Dir, "lines")); err != nil || !strings.HasPrefix(string(text), "new\nline 1.\n") {
			t.Errorf("the file: %.40q %v", text, err)
		}
	})
}

func TestTmux(t *testing.T) {
	require.Program(t, "tmux", "tmux")
	each(t, func(t *testing.T, d *day) {
		s := d.screen(t, filepath.Join(d.bin, "box"), "tmux", "-f", "/dev/null", "-L", filepath.Base(d.Dir)+fmt.Sprint(os.Getpid()), "new-session", "echo begun; read x; echo read $x; read y")
		s.Expect("begun")
		s.Send("text\r")
		s.Expect("read text")
		s.Send("\r")
		if code := s.Wait(); code != 0 {
			t.Errorf("exit status %d; on the screen:\n%q", code, s.Text())
		}
	})
}

// A terminal that goes away takes the command along, and what it did can be undone.
func TestTerminalGoesAway(t *testing.T) {
	each(t, func(t *testing.T, d *day) {
		s := d.screen(t, filepath.Join(d.bin, "box"), "sh", "-c", "echo text >made; echo begun; exec sleep 1000")
		s.Expect("begun")
		s.HangUp()
		ended := make(chan struct{})
		go func() {
			_ = s.Cmd.Wait() // by the hang-up
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("it does not end")
		}
		if strings.HasSuffix(t.Name(), "natively") {
			return
		}
		d.Must(t, "undo")
		if _, err := os.Stat(filepath.Join(d.Dir, "made")); err == nil {
			t.Error("what it made is there after an undo")
		}
	})
}
