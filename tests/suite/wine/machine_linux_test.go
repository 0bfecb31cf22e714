package wine_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
	"github.com/codeagent/sandbox/tests/kit/wine"
	"github.com/codeagent/sandbox/tests/suite/jsonl"
)

// patience is for one command, with the boot of an emulated machine in it.
const patience = 5 * time.Minute

// nobody is the user of wine's programs.
const nobody = 65534

// windows is sandbox.exe in a folder of drive C:.
type windows struct {
	t    *testing.T
	m    *wine.Machine
	root string // drive C: on the host
	qemu string
}

// newWindows puts what sandbox.exe needs where it looks for it.
func newWindows(t *testing.T) *windows {
	t.Helper()
	qemu := require.Program(t, "qemu-system-x86_64", "qemu-system-x86")
	require.Program(t, "chromium", "chromium") // said before anything is made
	cache := guestimage.Cache(t)
	m := wine.New(t, wine.Options{})
	root, err := m.HostPath(`C:\`)
	if err != nil {
		t.Fatal(err)
	}
	w := &windows{t: t, m: m, root: root}
	if w.qemu, err = m.Outside(wine.Build(t, "tests/cmd/outside"), qemu); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(t.TempDir(), "sandbox.exe")
	build := exec.Command("go", "build", "-tags", "embedguest", "-ldflags", "-s -w", "-o", exe, "github.com/codeagent/sandbox/cmd/sandbox")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build for Windows: %v: %s", err, out)
	}
	w.put(exe, `C:\sandbox.exe`)
	settings, images := w.variable("APPDATA"), w.variable("LOCALAPPDATA")
	for _, name := range []string{"base.cpio", "kernel", "manifest.json"} {
		w.put(filepath.Join(cache, "sandbox", "guest", "amd64", name), images+`\sandbox\guest\amd64\`+name)
	}
	w.text(settings+`\codeagent\codeagent.toml`, fmt.Sprintf("[vm]\nqemu = '%s'\nacceleration = 'tcg'\nmemory = '256MiB'\nboot_timeout = '4m'\nmode = 'persistent'\ndisk_size = '256MiB'\n", w.qemu))
	return w
}

// host is where a path of Windows is here, and its directory.
func (w *windows) host(path string) string {
	w.t.Helper()
	host, err := w.m.HostPath(path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(host), 0o777)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	for dir := filepath.Dir(host); len(dir) > len(w.root); dir = filepath.Dir(dir) {
		_ = os.Lchown(dir, nobody, nobody) // who programs run as
	}
	return host
}

func (w *windows) put(from, to string) {
	w.t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(w.host(to), b, 0o755)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *windows) text(path, content string) {
	w.t.Helper()
	if err := os.WriteFile(w.host(path), []byte(content), 0o666); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Lchown(w.host(path), nobody, nobody); err != nil {
		w.t.Fatal(err)
	}
}

// variable is one of Windows' environment.
func (w *windows) variable(name string) string {
	w.t.Helper()
	out, err := w.m.Command(w.t.Context(), "cmd", "/c", "echo %"+name+"%").CombinedOutput()
	value := strings.TrimSpace(string(out))
	if err != nil || !strings.HasPrefix(value, `C:\`) {
		w.t.Fatalf("%%%s%%: %q, %v", name, out, err)
	}
	return value
}

// command is sandbox.exe in C:\project.
func (w *windows) command(ctx context.Context, args ...string) *wine.Cmd {
	cmd := w.m.Command(ctx, w.host(`C:\sandbox.exe`), args...)
	cmd.Dir = w.host(`C:\project`)
	return cmd
}

// sandbox runs it to its end.
func (w *windows) sandbox(args ...string) (string, int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := w.command(ctx, args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("sandbox %v: %v\n%s", args, err, out)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

func (w *windows) must(args ...string) string {
	w.t.Helper()
	out, code := w.sandbox(args...)
	if code != 0 {
		w.t.Fatalf("sandbox %v: exit status %d\n%s", args, code, out)
	}
	w.t.Logf("C:\\project> sandbox.exe %s\n%s", strings.Join(args, " "), out) // make wine-demo shows it
	return out
}

// TestUndoOnWindows: a Linux guest removes everything in a folder of drive C:, and Windows' program puts it back: by commands, and in a session over STDIO, in which an MCP client and other
// processes of the program work, too, until it is killed. The machine is persistent: what it kept in its home directory the next one has.
func TestUndoOnWindows(t *testing.T) {
	w := newWindows(t)
	for i := range 20 {
		w.text(fmt.Sprintf(`C:\project\src\deep\file-%d.txt`, i), strings.Repeat(fmt.Sprintln("line", i), 100*i))
		w.text(fmt.Sprintf(`C:\project\f%d`, i), fmt.Sprintln(i))
	}
	project := w.host(`C:\project`)
	snap := func() *treesnap.Snapshot { return treesnap.MustTake(t, project) }
	same := func(what string, want *treesnap.Snapshot) {
		t.Helper()
		t.Log(what)
		// Windows' times have 100 ns, and wine keeps attributes that are its own.
		treesnap.AssertEqual(t, want, snap(), treesnap.Options{MtimeTolerance: 100, IgnoreXattrs: true})
	}
	before := snap()
	w.typed("rm -r src")
	w.must("undo")
	same("undo of what a command on a console did", before)
	out := w.must("run", "--", "sh", "-ec", `echo kept >~/kept; echo more >> f3; mv f2 f2-renamed; mkdir -p a/b; echo deep > a/b/c; mv src/deep moved; ln -s f1 sym; chmod 755 f4; mkfifo pipe
		[ "$(cat sym)" = 1 ]; [ "$(stat -c %a f4)" = 755 ]; ls -l | sed 's/^/    /'; rm f5
		for name in con nul.txt COM1 f6:stream 'f6 ' f6. 'a\b' F6; do
			[ ! -e "$name" ] || echo "$name is there"; ! echo wrong 2>/dev/null >"$name" || echo "$name was made"; rm -f "$name"; done
		[ "$(cat f6)" = 6 ]; echo done`)
	if !strings.Contains(out, "done\n") || !strings.Contains(out, "sandbox undo") || strings.Contains(out, "was made") || strings.Contains(out, "is there") {
		t.Fatalf("the first step: %s", out)
	}
	first := snap()

	s := w.serve()
	s.removeAll(first, snap, same)
	s.joined(first, same)
	s.byMCP(first, same)
	s.killed(first, snap)

	if out := w.must("history"); !strings.Contains(out, "interrupted") {
		t.Errorf("history after kill -9 in mid-step: %s", out)
	}
	if out := w.must("diff", "2"); !strings.Contains(out, "+more") {
		t.Errorf("diff: %s", out)
	}
	interrupted := snap()
	w.must("undo")
	same("undo after kill -9 in mid-step", first)
	w.must("undo")
	same("undo of both", before)
	w.must("redo")
	w.must("redo")
	same("redo of both", interrupted)
	w.undoByPage()
	same("undo of both by the page", before)
	w.keep()
	same("undo in a session in the background", before)
	if out := w.must("guest", "reset"); !strings.Contains(out, "removed") {
		t.Errorf("guest reset: %s", out)
	}
	if left, err := filepath.Glob(filepath.Join(w.host(w.variable("TEMP")), "sandbox-*")); err != nil || len(left) > 0 {
		t.Errorf("left in the directory for temporary files: %q, %v", left, err)
	}
}

// keep runs commands one after the other in a machine that stays up for them, in a session in the background, and ends that.
func (w *windows) keep() {
	w.t.Helper()
	const id = "/proc/sys/kernel/random/boot_id"
	w.kept("echo new >new; cat " + id + " >~/boot")
	if out := w.kept("cat new; cmp ~/boot " + id + "; rm new"); !strings.HasPrefix(out, "new\n") {
		w.t.Errorf("the second command: %s", out)
	}
	w.must("undo", "2")
	w.must("stop")
}

// kept runs a script that may start a session in the background. It writes to a file: wine leaves the pipe of whoever starts a program to all that follow.
func (w *windows) kept(script string) string {
	w.t.Helper()
	out, err := os.CreateTemp(w.t.TempDir(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := w.command(ctx, "run", "--keep", "5m", "--", "sh", "-ec", script)
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	text, rerr := os.ReadFile(out.Name())
	if err = errors.Join(err, rerr); err != nil {
		w.t.Fatalf("run --keep: %v\n%s", err, text)
	}
	w.t.Logf("C:\\project> sandbox.exe run --keep 5m -- sh -ec %q\n%s", script, text)
	return string(text)
}

// served is a session of sandbox.exe over STDIO.
type served struct {
	*windows
	c       *jsonl.Client
	process *wine.Cmd
}

// mcpSocket is where MCP clients find it.
const mcpSocket = `C:\mcp`

// serve starts the session, and its machine.
func (w *windows) serve() *served {
	w.t.Helper()
	cmd := w.command(w.t.Context(), "serve", "--protocol", "stdio", "--mcp-socket", mcpSocket)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if w.t.Failed() {
			w.t.Logf("sandbox serve: %s", log.String())
		}
	})
	s := &served{w, jsonl.New(w.t, stdin, stdout), cmd}
	s.c.Must("session.start", map[string]any{"working_directories": []map[string]any{{"path": `C:\project`}}}, nil)
	return s
}

// removeAll has a command remove all, and the session and another process of the program undo and redo that.
func (s *served) removeAll(first *treesnap.Snapshot, snap func() *treesnap.Snapshot, same func(string, *treesnap.Snapshot)) {
	t := s.t
	t.Helper()
	id := s.c.Send("agent.execute", map[string]any{"command": "[ -L sym ] && [ -p pipe ] && stat -c %a f4; cat ~/kept; rm -rf *; ls -A | wc -l"})
	if m := s.c.Response(id); !m.OK() {
		t.Fatalf("rm -rf: %s", m.Line)
	}
	if said := s.output(); said != "755\nkept\n0\n" {
		t.Errorf("the second step said %q", said)
	}
	if left, err := os.ReadDir(s.host(`C:\project`)); err != nil || len(left) != 0 {
		t.Fatalf("the host has %v, %v", left, err)
	}
	second := snap()
	// By another process, which asks this session.
	if out := s.must("history"); strings.Count(out, "sh -") != 2 {
		t.Errorf("history: %s", out)
	}
	s.must("undo")
	same("undo by another process", first)
	s.c.Must("undo.redo", nil, nil)
	same("redo over STDIO", second)
	s.c.Must("undo.rollback", nil, nil)
	same("undo over STDIO", first)
}

// joined runs commands of other processes in this session's machine.
func (s *served) joined(first *treesnap.Snapshot, same func(string, *treesnap.Snapshot)) {
	t := s.t
	t.Helper()
	if out, code := s.sandbox("run", "--", "sh", "-c", "cat ~/kept; rm f1; echo complains >&2; exit 9"); code != 9 || !strings.HasPrefix(out, "kept\n") || !strings.Contains(out, "complains\n") {
		t.Errorf("a command of another process: %d, %s", code, out)
	}
	s.must("undo")
	same("undo of what a command of another process did", first)
	s.typed("rm f3")
	s.must("undo")
	same("undo of what a command of another process did on a console", first)
	if out, code := s.sandbox("run", "--keep", "1m", "--", "true"); code != 125 || !strings.Contains(out, "leave --keep out") {
		t.Errorf("--keep with another's session: %d, %s", code, out)
	}
}

// output is what commands have said of late.
func (s *served) output() (said string) {
	for _, m := range s.c.Rest() {
		var o struct{ Data string }
		if m.Type == "event.terminal_output" {
			m.Into(s.t, &o)
			said += o.Data
		}
	}
	return said
}

// byMCP has a client work in the session that speaks the Model Context Protocol by a named pipe.
func (s *served) byMCP(first *treesnap.Snapshot, same func(string, *treesnap.Snapshot)) {
	t := s.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := s.command(ctx, "mcp", "connect", mcpSocket)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewScanner(stdout)
	answers.Buffer(nil, 1<<20)
	ask := func(id int, method, params string) string {
		t.Helper()
		if _, err := fmt.Fprintf(stdin, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
			t.Fatal(err)
		}
		for answers.Scan() {
			if strings.Contains(answers.Text(), fmt.Sprintf(`"id":%d,`, id)) {
				return answers.Text()
			}
		}
		t.Fatalf("no answer to %s: %v, %s", method, answers.Err(), complaint.String())
		return ""
	}
	ask(1, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	_, _ = fmt.Fprintln(stdin, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if got := ask(2, "tools/call", `{"name":"execute_command","arguments":{"command":"echo by MCP > made; rm -r moved; cat made"}}`); !strings.Contains(got, `"stdout":"by MCP\n"`) {
		t.Errorf("execute_command: %s", got)
	}
	if made, err := os.ReadFile(s.host(`C:\project\made`)); err != nil || string(made) != "by MCP\n" {
		t.Errorf("on the host: %q, %v", made, err)
	}
	ask(3, "tools/call", `{"name":"undo","arguments":{}}`)
	same("undo over MCP", first)
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("mcp connect: %v, %s", err, complaint.String())
	}
}

// killed kills the program while a command has done a part of its work.
func (s *served) killed(first *treesnap.Snapshot, snap func() *treesnap.Snapshot) {
	t := s.t
	t.Helper()
	s.c.Send("agent.execute", map[string]any{"command": "rm -rf moved; echo gone > f1; echo ready; sleep 1000"})
	s.c.Take("the command's output", func(m jsonl.Message) bool {
		return m.Type == "event.terminal_output" && strings.Contains(string(m.Payload), "ready")
	})
	if len(snap().Entries) >= len(first.Entries) {
		t.Error("nothing was removed before the kill")
	}
	if err := s.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.process.Wait()
}
