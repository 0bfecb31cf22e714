package day

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/npm"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// tool is a tool of somebody's project, which makes files.
type tool struct {
	name     string
	programs string // program:package
	modules  string // a directory of this module with a package-lock.json: node_modules of the project is what it pins
	files    map[string]string
	line     string
	prints   string // among other things
	makes    string // a file, among others
	own      string // beginnings of paths that differ from run to run: they hold times, or places below the home directory
	bridges  string // one of those that start a Java machine is enough
}

var tools = []tool{
	{
		name: "jest", programs: "node:nodejs", modules: "day", bridges: "mediated fuse",
		files: map[string]string{
			"package.json": `{"name": "app", "private": true}`,
			"add.js":       "module.exports = (a, b) => a + b\n",
			"add.test.js":  "const add = require('./add')\ntest('adds', () => { expect(add(1, 2)).toBe(3); expect({sum: add(2, 2)}).toMatchSnapshot() })\n",
			"sub.test.js":  "test('subtracts', () => { expect(3 - 2).toBe(1) })\n",
		},
		line: "box node_modules/.bin/jest --ci=false --coverage --coverageReporters=lcovonly -w 2 2>&1", prints: "2 passed, 2 total", makes: "__snapshots__/add.test.js.snap",
	},
	{
		name: "vite build", programs: "node:nodejs", modules: "devtools", bridges: "mediated fuse",
		files: map[string]string{
			"package.json": `{"name": "app", "private": true, "type": "module"}`,
			"index.html":   "<!doctype html><script type=\"module\" src=\"/main.js\"></script>\n",
			"main.js":      "import { text } from './message.js'\ndocument.body.textContent = text\n",
			"message.js":   "export const text = 'one'\n",
			"public/icon":  "icon\n",
		},
		line: "box node_modules/.bin/vite build && box node_modules/.bin/vite build", prints: "modules transformed", makes: "dist/icon",
	},
	{
		name: "tsc", programs: "node:nodejs", modules: "devtools", bridges: "mediated fuse",
		files: map[string]string{
			"tsconfig.json": `{"compilerOptions": {"strict": true, "incremental": true, "declaration": true, "outDir": "out", "types": [], "lib": ["es2020"]}, "files": ["main.ts"]}`,
			"main.ts":       "import { one } from './one'\nexport const two: number = one + 1\n",
			"one.ts":        "export const one = 1\n",
		},
		line: "box node_modules/.bin/tsc && box sh -c 'echo \"export const three: string = 3\" >>main.ts'; box node_modules/.bin/tsc", prints: "main.ts(3,14): error TS2322", makes: "out/main.d.ts",
	},
	{
		name: "gradle", programs: "gradle:gradle javac:default-jdk-headless", bridges: "fuse",
		files: map[string]string{
			"build.gradle":             "apply plugin: 'java'\n",
			"src/main/java/Hello.java": "public class Hello { public static void main(String[] a) { System.out.println(\"hello, Java\"); } }\n",
		},
		line:   `box gradle --gradle-user-home "$HOME/.gradle" --offline --no-daemon -q jar 2>&1; box java -cp build/libs/*.jar Hello`,
		prints: "hello, Java", makes: "build/classes/java/main/Hello.class", own: ".gradle build/libs",
	},
	{
		name: "bazel", programs: "bazel:bazel-bootstrap", bridges: "mediated",
		files: map[string]string{
			"WORKSPACE": "", "a": "b\na\n",
			"BUILD": "genrule(name = 'sorted', srcs = ['a'], outs = ['out'], cmd = 'sort $< > $@')\n",
		},
		line: `box bazel --batch --output_user_root="${XDG_CACHE_HOME:-$HOME/.cache}/bazel" build //:sorted 2>&1; box cat bazel-bin/out`, prints: "a\nb\n", makes: "bazel-bin", own: "bazel-",
	},
}

// TestTools: what tools of others make of a project is what they make natively, and an undo takes it back.
func TestTools(t *testing.T) {
	for _, c := range tools {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range strings.Fields(c.programs) {
				name, pkg, _ := strings.Cut(p, ":")
				require.Program(t, name, pkg)
			}
			native := c.work(t, "natively")
			if _, ok := native.Entries[c.makes]; !ok {
				t.Fatalf("natively it makes no %s: %v", c.makes, native.Entries)
			}
			for how := range strings.FieldsSeq(c.bridges) {
				t.Run(how, func(t *testing.T) {
					treesnap.AssertEqual(t, native, c.work(t, how), treesnap.Options{IgnoreMtime: true, Exclude: c.differs})
				})
			}
		})
	}
}

// differs tells whether a path is not the same from run to run.
func (c tool) differs(path string) bool {
	for begin := range strings.FieldsSeq(c.own) {
		if strings.HasPrefix(path, begin) {
			return true
		}
	}
	return path == ""
}

// work runs the tool in a project of its own, and returns what the folder is like then. Inside, what it was like comes back by undos.
func (c tool) work(t *testing.T, how string) *treesnap.Snapshot {
	t.Helper()
	d := newDay(t, how, c.project)
	before := d.Snapshot(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := d.command(ctx, "sh", "-c", c.line)
	cmd.Env = append(cmd.Env, "JAVA_TOOL_OPTIONS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC") // a fast start
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); !strings.Contains(stdout.String(), c.prints) {
		t.Fatalf("%s: %v; %q is not among what it prints\nstdout: %s\nstderr: %s", how, err, c.prints, &stdout, &stderr)
	}
	made := d.Snapshot(t)
	if how == "natively" {
		return made
	}
	for n := len(d.History(t)); n > 0; n-- {
		d.Must(t, "undo")
	}
	treesnap.AssertEqual(t, before, d.Snapshot(t))
	return made
}

// project makes the project's folder.
func (c tool) project(t testing.TB, root string) {
	for name, text := range c.files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if c.modules != "" {
		if err := os.Symlink(npm.Modules(t, drive.Module(t)+"/tests/suite/"+c.modules), filepath.Join(root, "node_modules")); err != nil {
			t.Fatal(err)
		}
	}
}
