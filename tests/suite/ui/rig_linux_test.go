package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

// patience only ends a test that has failed.
const patience = 3 * time.Minute

// place is a Sandbox whose commands keep their logs where "sandbox ui" looks for them.
type place struct {
	*drive.Sandbox
	t *testing.T
}

func newPlace(t *testing.T, fill map[string]string) *place {
	t.Helper()
	p := &place{drive.New(t, nil), t}
	t.Cleanup(func() { p.CheckResidue(t) })
	for name, text := range fill {
		p.write(name, text)
	}
	return p
}

func (p *place) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) read(name string) string {
	data, err := os.ReadFile(filepath.Join(p.Dir, name))
	if err != nil {
		return "no " + name
	}
	return string(data)
}

// sandbox runs a command of the program, which must succeed.
func (p *place) sandbox(args ...string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	out, err := p.Bare(ctx, args...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("sandbox %q: %v: %s", args, err, out)
	}
	return string(out)
}

// step runs a script as a step.
func (p *place) step(script string) {
	p.t.Helper()
	p.sandbox("run", "--", "sh", "-ec", script)
}

// live starts a session that stays until the test ends, or stop is called.
func (p *place) live(flags ...string) (stop func()) {
	p.t.Helper()
	p.sandbox(append([]string{"start"}, flags...)...)
	var once sync.Once
	stop = func() { once.Do(func() { p.sandbox("stop") }) }
	p.t.Cleanup(func() {
		once.Do(func() { _ = p.Bare(context.Background(), "stop").Run() })
		p.WaitGone(p.t)
	})
	return stop
}

// background starts a command of the program that waits for a decision. ended returns
// its exit status.
func (p *place) background(args ...string) (ended func() int) {
	p.t.Helper()
	cmd := p.Bare(context.WithoutCancel(p.t.Context()), args...)
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	var once sync.Once
	code := 0
	ended = func() int {
		once.Do(func() { code = drive.ExitCode(p.t, cmd.Wait()) })
		return code
	}
	p.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		ended()
	})
	return ended
}

// server is a running "sandbox ui".
type server struct {
	url  string // with the token
	cmd  *exec.Cmd
	end  func()
	errs *strings.Builder
}

var printed = regexp.MustCompile(`http://127\.0\.0\.1:\d+/#token=[\w-]+`)

// serve starts "sandbox ui" until the test ends.
func (p *place) serve(flags ...string) *server { p.t.Helper(); return p.serveWith(nil, flags...) }

// serveWith is serve with more in its environment.
func (p *place) serveWith(env []string, flags ...string) *server {
	p.t.Helper()
	cmd := p.Bare(context.WithoutCancel(p.t.Context()), append([]string{"ui", "--no-open"}, flags...)...)
	cmd.Env = append(cmd.Env, env...)
	s := &server{cmd: cmd, errs: &strings.Builder{}}
	cmd.Stderr = s.errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	var once sync.Once
	s.end = func() {
		once.Do(func() {
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait()
		})
	}
	p.t.Cleanup(func() {
		s.end()
		if p.t.Failed() {
			p.t.Logf("the server's log:\n%s", s.errs)
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if s.url = printed.FindString(lines.Text()); s.url != "" {
			return s
		}
	}
	s.end()
	p.t.Fatalf("no address was printed: %s", s.errs)
	return nil
}

// base is the server's address without the token.
func (s *server) base() string { return s.url[:strings.Index(s.url, "#")] }

// port is the server's.
func (s *server) port() string {
	u := strings.TrimSuffix(s.base(), "/")
	return u[strings.LastIndex(u, ":")+1:]
}

// tab is one page that is open.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
	expected *regexp.Regexp
}

// open opens a tab. What the page reports as an error fails the test.
func open(chromium context.Context, t *testing.T, url string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium)
	p := &tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		if t.Failed() {
			p.shoot("failed-" + strings.ReplaceAll(t.Name(), "/", "-"))
		}
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, problem := range p.problems {
			if p.expected == nil || !p.expected.MatchString(problem) {
				t.Errorf("the page reports: %s", problem)
			}
		}
	})
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, p.heard); err != nil {
		t.Fatal(err)
	}
	p.size(1280, 800)
	p.navigate(url)
	return p
}

func (p *tab) heard(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := ev.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		p.problems = append(p.problems, text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			p.problems = append(p.problems, fmt.Sprint(e.Entry.Text, " ", e.Entry.URL))
		}
	}
}

// expect names problems that the test makes on purpose.
func (p *tab) expect(re string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = regexp.MustCompile(re)
}

func (p *tab) do(a ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, a...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *tab) navigate(url string) {
	p.t.Helper()
	p.do(chromedp.Navigate(url))
}

func (p *tab) size(w, h int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(w, h))
}

// theme sets what the system is said to prefer.
func (p *tab) theme(dark bool) {
	p.t.Helper()
	value := "light"
	if dark {
		value = "dark"
	}
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: value}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	if err != nil {
		p.t.Fatal(err)
	}
}

// moving takes back that the reader wants no motion.
func (p *tab) moving() {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{}); err != nil {
		p.t.Fatal(err)
	}
}

// eval evaluates JavaScript, and waits for a promise.
func eval[T any](p *tab, js string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v\nthe page shows:\n%s", js, err, p.shown())
	}
	return v
}

// shown is the page's text, for the report of a failure.
func (p *tab) shown() string {
	ctx, cancel := context.WithTimeout(p.ctx, 20*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`(location.hash + "\n" + document.body.innerText).slice(0, 3000)`))
	if err != nil {
		return err.Error()
	}
	return text
}

// wait waits until an expression is true.
func (p *tab) wait(js string) {
	p.t.Helper()
	eval[bool](p, `new Promise((ok) => { const look = () => { let v = false; try { v = (`+js+`) } catch {} v ? ok(true) : setTimeout(look, 20) }; look() })`)
}

// text waits until what matches the selector has the text in it.
func (p *tab) text(selector, text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.textContent.includes(%s))`, quote(selector), quote(text)))
}

// click waits for a button or link that can be pressed, and presses it.
func (p *tab) click(selector string) {
	p.t.Helper()
	// The page draws itself anew when something changes: the mouse needs a place, not a node that may be gone.
	p.wait(fmt.Sprintf(`(() => {
		const e = document.querySelector(%s);
		if (!e || e.disabled || e.getClientRects().length === 0) return false;
		e.scrollIntoViewIfNeeded();
		const r = e.getClientRects()[0];
		window.placeToClick = [r.x + r.width / 2, r.y + r.height / 2];
		return true;
	})()`, quote(selector)))
	at := eval[[]float64](p, `window.placeToClick`)
	p.do(chromedp.MouseClickXY(at[0], at[1]))
}

// press presses the first thing that matches the selector and has the text.
func (p *tab) press(selector, text string) {
	p.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll(%s)].find((e) => e.textContent.includes(%s) && !e.disabled)`, quote(selector), quote(text))
	p.wait(find + " !== undefined")
	eval[bool](p, find+".click(), true")
}

func (p *tab) keys(keys string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys))
}

func quote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

// shoot keeps a picture if SANDBOX_UI_SHOTS is set.
func (p *tab) shoot(name string) { p.keep(os.Getenv("SANDBOX_UI_SHOTS"), name) }

// document keeps a picture of docs/ui.md: 'make screenshots' sets where.
func (p *tab) document(name string) {
	p.keep(os.Getenv("SANDBOX_UI_DOCUMENTS"), name)
	p.shoot("document-" + name)
}

func (p *tab) keep(dir, name string) {
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	data, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644)
	}
	if err != nil {
		p.t.Errorf("the picture %s: %v", name, err)
	}
}
