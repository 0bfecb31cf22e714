package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

const (
	pageSteps = 10_000 // of the history that the page shows
	pageLines = 10_000 // of the diff
)

// benchUI looks at the page of 'sandbox ui' in a headless Chromium, over a live session.
func benchUI(ctx context.Context, l *lab, r *report.Report, rounds int) (err error) {
	bin, err := program()
	if err != nil {
		return err
	}
	if info, err := os.Stat(bin); err == nil {
		r.Value("ui", "the program, with the page in it", float64(info.Size())/1e6, "MB", 0)
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		return err
	}
	dir, err := l.sub("page")
	if err != nil {
		return err
	}
	settings := filepath.Join(l.scratch, "page.toml")
	if err := os.WriteFile(settings, []byte("[undo]\nmax_steps = 100000\nmax_bytes = -1\n"), 0o600); err != nil {
		return err
	}
	env := append(environ(), "XDG_RUNTIME_DIR="+l.scratch, "XDG_STATE_HOME="+l.scratch)
	serve := exec.Command(bin, "serve", "--protocol", "mcp", "--working-dir", dir, "--undo-dir", dir+".undo", "--config-file", settings, "--log-level", "error")
	serve.Env = env
	s, err := startMCP(serve)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := fillPage(s); err != nil {
		return err
	}
	url, page, stop, err := servePage(ctx, bin, env)
	if err != nil {
		return err
	}
	defer stop()
	sides := []watched{{"the page's server", page}, {"the session", serve.Process.Pid}}
	if err := idle(ctx, r, "no page is open", sides, 0.1); err != nil {
		return err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.WindowSize(1280, 800))
	browser, end := chromedp.NewExecAllocator(ctx, options...)
	defer end()
	tab, closeTab := chromedp.NewContext(browser)
	defer closeTab()
	if err := chromedp.Do(tab, chromedp.Navigate(url)); err != nil {
		return err
	}
	if err := lookAtPage(tab, s, r, rounds); err != nil {
		return err
	}
	if err := idle(ctx, r, "one page is open, and idle", sides, 2); err != nil {
		return err
	}
	// Most of what is resident is the program's file, which the session has mapped, too: Pss counts its half.
	r.Value("ui", "one page is open, and idle: memory that the page's server takes (Pss)", float64(memoryKiB(page, "smaps_rollup", "Pss"))/1024, "MiB", 30)
	r.Value("ui", "what is resident of it", float64(statusKiB(page, "VmRSS"))/1024, "MiB", 0)
	r.Value("ui", "the page's server at its most", float64(statusKiB(page, "VmHWM"))/1024, "MiB", 0)
	return nil
}

// watched is a process whose processor time is measured.
type watched struct {
	name string
	pid  int
}

// idleFor is how long nothing is done.
const idleFor = 10 * time.Second

// idle measures what processes use of a processor while nobody does anything. The limit is in percent.
func idle(ctx context.Context, r *report.Report, when string, sides []watched, limit float64) error {
	before := make([]time.Duration, len(sides))
	for i, s := range sides {
		before[i] = cpuOf(s.pid)
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idleFor):
	}
	took := time.Since(began)
	for i, s := range sides {
		r.Value("ui", when+": processor time of "+s.name, 100*float64(cpuOf(s.pid)-before[i])/float64(took), "%", limit)
	}
	return nil
}

// fillPage writes the history, and the long diff as its last step.
func fillPage(s *mcpSession) error {
	var done struct{}
	for i := range pageSteps - 1 {
		if err := s.tool("write_file", map[string]any{"path": fmt.Sprintf("f%d.txt", i%100), "content": fmt.Sprintln("step", i)}, &done); err != nil {
			return err
		}
	}
	var long strings.Builder
	for i := range pageLines {
		fmt.Fprintf(&long, "	line(%d, \"text\") // of a long file\n", i)
	}
	return s.tool("write_file", map[string]any{"path": "long.go", "content": long.String()}, &done)
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+/#token=[\w-]+`)

// servePage starts 'sandbox ui', and returns the page's address and the process.
func servePage(ctx context.Context, bin string, env []string) (url string, pid int, stop func(), err error) {
	cmd := exec.CommandContext(ctx, bin, "ui", "--no-open")
	cmd.Env, cmd.Stderr = env, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", 0, nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if url = address.FindString(lines.Text()); url != "" {
			return url, cmd.Process.Pid, stop, nil
		}
	}
	stop()
	return "", 0, nil, errors.New("sandbox ui printed no address")
}

// inPage evaluates a promise of a number.
func inPage(tab context.Context, js string) (float64, error) {
	ctx, cancel := context.WithTimeout(tab, 2*time.Minute)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[float64](js, chromedp.EvalAwaitPromise))
}

// until is JavaScript that waits frame by frame until a condition holds, and then
// gives a value.
func until(condition, value string) string {
	return `new Promise((ok) => { const look = () => { let v = false; try { v = (` + condition + `) } catch {} v ? ok(` + value + `) : requestAnimationFrame(look) }; look() })`
}

func lookAtPage(tab context.Context, s *mcpSession, r *report.Report, rounds int) error {
	if _, err := inPage(tab, until(`document.querySelector("nav a[href^='#/f/']")`, `(location.hash = document.querySelector("nav a[href^='#/f/']").getAttribute("href"), 1)`)); err != nil {
		return err
	}
	var painted, shown, told []time.Duration
	for i := range 2*rounds + 1 {
		if err := chromedp.Do(tab, chromedp.Reload()); err != nil {
			return err
		}
		first, err := inPage(tab, until(`performance.getEntriesByName("history-shown").length && performance.getEntriesByName("timeline-painted").length && document.querySelectorAll(".steplist .row").length`, `performance.getEntriesByName("timeline-painted").find((e) => e.startTime >= performance.getEntriesByName("history-shown")[0].startTime)?.startTime ?? performance.now()`))
		if err != nil {
			return err
		}
		// All of the history is there before the next is measured.
		if _, err := inPage(tab, until(fmt.Sprintf(`document.querySelector(".canvas").getAttribute("aria-label").replace(/\D/g, "") >= %d`, pageSteps), `1`)); err != nil {
			return err
		}
		diff, err := inPage(tab, fmt.Sprintf(`(() => { const from = performance.now(); location.hash = location.hash.replace(/\/s\/.*/, "") + "/s/%d"; return %s })()`, pageSteps,
			until(fmt.Sprintf(`document.querySelector(".diffbox .bar").textContent.includes("+%d,%03d") && document.querySelector(".line.add")`, pageLines/1000, pageLines%1000), `performance.now() - from`)))
		if err != nil {
			return err
		}
		if _, err := inPage(tab, `(async () => { location.hash = location.hash.replace(/\/s\/.*/, ""); return 1 })()`); err != nil {
			return err
		}
		late, err := eventToPage(tab, s, i)
		if err != nil {
			return err
		}
		if i > 0 { // the first warms up
			painted, shown, told = append(painted, floatMS(first)), append(shown, floatMS(diff)), append(told, floatMS(late))
		}
	}
	r.Value("ui", fmt.Sprintf("a history of %d steps: from the reload to the first picture", pageSteps), report.MS(report.Median(painted)), "ms", 1000)
	r.Value("ui", "from a step's end to its row in the page", report.MS(report.Median(told)), "ms", 100)
	r.Value("ui", fmt.Sprintf("a diff of %d lines: from the choice to all of it", pageLines), report.MS(report.Median(shown)), "ms", 500)
	return nil
}

// eventToPage makes a step, and returns how long after its end the page shows it.
func eventToPage(tab context.Context, s *mcpSession, i int) (float64, error) {
	name := fmt.Sprintf("event%d.txt", i)
	if _, err := inPage(tab, `(window.seen = `+until(`[...document.querySelectorAll(".steplist .row")].some((e) => e.textContent.includes("`+name+`"))`, `Date.now()`)+`, 1)`); err != nil {
		return 0, err
	}
	var done struct{}
	if err := s.tool("write_file", map[string]any{"path": name, "content": name}, &done); err != nil {
		return 0, err
	}
	end := time.Now()
	at, err := inPage(tab, `window.seen`)
	return max(at-float64(end.UnixMicro())/1000, 0), err
}

func floatMS(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
