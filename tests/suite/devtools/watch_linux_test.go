package devtools

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/browser"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/npm"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// patience only ends a test that has failed.
const patience = 3 * time.Minute

// bridges are the flags of each bridge, and what watchers inside need there: with FUSE the kernel has
// no event for what is edited outside. Who watches is woken (TestInotify), but who watches a single file
// does not hear that another one has taken its name: these poll.
var bridges = map[string]struct{ flags, vite, tsc []string }{
	"mediated": {flags: []string{"--bridge", "mediated"}},
	"fuse": {flags: []string{"--bridge", "fuse"}, vite: []string{"--env", "CHOKIDAR_USEPOLLING=1"},
		tsc: []string{"--watchFile", "fixedPollingInterval", "--watchDirectory", "fixedPollingInterval"}},
}

// project makes a folder with files, and in node_modules a copy of the named packages
// and all that they need.
func project(t *testing.T, files map[string]string, packages ...string) *drive.Sandbox {
	t.Helper()
	modules := npm.Modules(t, drive.Module(t)+"/tests/suite/devtools")
	s := drive.New(t, func(t testing.TB, root string) {
		for name, text := range files {
			write(t, filepath.Join(root, name), text)
		}
		to := filepath.Join(root, "node_modules")
		if err := os.Mkdir(to, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range packages {
			if out, err := exec.Command("cp", "-r", "--reflink=auto", filepath.Join(modules, name), to).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	})
	t.Cleanup(func() { s.CheckResidue(t) })
	return s
}

// service starts a service until the test ends.
func service(t *testing.T, s *drive.Sandbox, name string, args ...string) {
	t.Helper()
	s.Must(t, append([]string{"run", "--service", name}, args...)...)
	t.Cleanup(func() {
		if t.Failed() {
			out, err := s.Command(context.Background(), "service", "output", name).CombinedOutput()
			t.Logf("the service %s: %v\n%s", name, err, out)
		}
		if out, err := s.Command(context.Background(), "stop").CombinedOutput(); err != nil {
			t.Errorf("stop: %v: %s", err, out)
		}
		s.WaitGone(t)
	})
}

// freePort is one of the host's loopback that nobody has.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// TestVite has vite as a service inside, an editor outside, and a browser outside that
// reaches vite through a published port: what is edited is seen in the page, without
// a reload where the module accepts that.
func TestVite(t *testing.T) {
	t.Parallel()
	require.Program(t, "node", "nodejs")
	require.Program(t, "npx", "npm")
	chromium := browser.Start(t)
	for name, b := range bridges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := project(t, map[string]string{
				"package.json": `{"name": "app", "private": true, "type": "module"}`,
				"index.html":   html("first"),
				"main.js": `import { text } from './message.js'
const show = (text) => { document.querySelector('#text').textContent = text }
show(text)
import.meta.hot.accept('./message.js', (m) => show(m.text))
`,
				"message.js": "export const text = 'one'\n",
			}, ".bin", "vite", "esbuild", "@esbuild", "rollup", "@rollup", "@types", "postcss", "nanoid", "picocolors", "source-map-js", "fdir", "picomatch", "tinyglobby")
			port := freePort(t)
			args := append(append([]string{"--publish", port + ":5173"}, b.flags...), b.vite...)
			service(t, s, "web", append(args, "--", "npx", "--offline", "vite", "--host", "127.0.0.1", "--port", "5173", "--strictPort")...)
			url := "http://127.0.0.1:" + port + "/"
			actortest.Eventually(t, "vite answers", func() bool {
				r, err := http.Get(url)
				if err == nil {
					err = r.Body.Close()
				}
				return err == nil && r.StatusCode == http.StatusOK
			})
			p := open(chromium, t, url)
			p.wait(`document.querySelector('#text').textContent === 'one' && window.connected`)
			p.eval(`window.mark = 'kept'`)
			// By a rename, as editors save: natively, too, vite may read a file that is empty for a moment, and stay with that.
			replace(t, filepath.Join(s.Dir, "message.js"), "export const text = 'two'\n")
			p.wait(`document.querySelector('#text').textContent === 'two' && window.mark === 'kept'`)
			replace(t, filepath.Join(s.Dir, "message.js"), "export const text = 'three'\n")
			p.wait(`document.querySelector('#text').textContent === 'three' && window.mark === 'kept'`)
			replace(t, filepath.Join(s.Dir, "index.html"), html("second"))
			p.wait(`document.title === 'second' && document.querySelector('#text').textContent === 'three' && window.mark === undefined && window.connected`)
			// A step inside is seen, and so is its undo.
			s.Run(t, "echo \"export const text = 'four'\" >next; mv next message.js")
			p.wait(`document.querySelector('#text').textContent === 'four'`)
			s.Must(t, "undo")
			p.wait(`document.querySelector('#text').textContent === 'three'`)
		})
	}
}

// html is a page that says when vite's connection is up: what is edited before is not
// announced.
func html(title string) string {
	return `<!doctype html><title>` + title + `</title><script>
const Native = WebSocket
window.WebSocket = class extends Native {
	constructor(...args) {
		super(...args)
		this.addEventListener('message', (e) => { window.connected ||= e.data.includes('"connected"') })
	}
}
</script><p id="text"></p><script type="module" src="/main.js"></script>
`
}

// replace writes a file beside path, and renames it to path.
func replace(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// page is a tab of the browser.
type page struct {
	t   *testing.T
	ctx context.Context
}

func open(chromium context.Context, t *testing.T, url string) page {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	return page{t, ctx}
}

func (p page) eval(js string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](js)); err != nil {
		p.t.Fatalf("%s: %v", js, err)
	}
}

// wait waits until an expression is true, in whichever page the tab then has.
func (p page) wait(js string) {
	p.t.Helper()
	actortest.Eventually(p.t, js, func() bool {
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		defer cancel()
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("(() => { try { return "+js+" } catch { return false } })()"))
		return err == nil && ok // an error: it reloads
	})
	// Natively, too, vite does not notice what changes within 50 ms of the last change.
	if _, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`new Promise((ok) => setTimeout(() => ok(''), 200))`, chromedp.EvalAwaitPromise)); err != nil {
		p.t.Fatal(err)
	}
}

// TestTSCWatch has tsc --watch inside, and files that are edited, made, renamed and
// removed outside.
func TestTSCWatch(t *testing.T) {
	t.Parallel()
	require.Program(t, "node", "nodejs")
	for name, b := range bridges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := project(t, map[string]string{
				"tsconfig.json": `{"compilerOptions": {"strict": true, "noEmit": true, "target": "es2022", "module": "commonjs", "types": [], "lib": ["es2022"]}, "include": ["src"]}`,
				"src/a.ts":      "export const a: number = 1\n",
				"src/b.ts":      "import { a } from './a'\nexport const b: number = a\n",
			}, "typescript")
			args := append(slices.Clone(b.flags), "--", "node", "node_modules/typescript/bin/tsc", "--watch", "--preserveWatchOutput")
			service(t, s, "tsc", append(args, b.tsc...)...)
			at := func(name string) string { return filepath.Join(s.Dir, name) }
			w := watched{t: t, s: s}
			w.next("Found 0 errors")
			write(t, at("src/a.ts"), "export const a: string = 'x'\n") // edited
			w.next("src/b.ts(2,14): error TS2322")
			replace(t, at("src/b.ts"), "import { a } from './a'\nexport const b: string = a\n")
			w.next("Found 0 errors")
			write(t, at("src/deep/er/c.ts"), "export const c: number = 'new'\n") // new, in new directories
			w.next("src/deep/er/c.ts(1,14): error TS2322")
			rename(t, at("src/deep/er/c.ts"), at("src/deep/er/d.ts"))
			w.next("src/deep/er/d.ts(1,14): error TS2322")
			rename(t, at("src/deep"), at("src/deeper")) // a directory
			w.next("src/deeper/er/d.ts(1,14): error TS2322")
			remove(t, at("src/deeper/er/d.ts"))
			w.next("Found 0 errors")
			s.Run(t, "echo 'export const a: number = 1' >src/a.ts") // a step inside
			w.next("src/b.ts(2,14): error TS2322")
			s.Must(t, "undo")
			w.next("Found 0 errors")
			remove(t, at("src/a.ts"))
			w.next("src/b.ts(1,19): error TS2307")
		})
	}
}

// watched is the output of tsc --watch.
type watched struct {
	t    *testing.T
	s    *drive.Sandbox
	seen int // compilations that have been waited for
}

// next waits for a later compilation with the text in its output.
func (w *watched) next(text string) {
	w.t.Helper()
	var out string
	defer func() {
		if w.t.Failed() {
			w.t.Logf("the last output: %s", out)
		}
	}()
	actortest.Eventually(w.t, text, func() bool {
		out = w.s.Must(w.t, "service", "output", "tsc").Stdout
		runs := strings.SplitAfter(out, "Watching for file changes.\n")
		for i := w.seen; i < len(runs)-1; i++ {
			if strings.Contains(runs[i], text) {
				w.seen = i + 1
				return true
			}
		}
		return false
	})
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
