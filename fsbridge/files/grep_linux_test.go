package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// text renders matches as grep -n does.
func text(r Results) string {
	var out []string
	for _, m := range r.Matches {
		sep := ":"
		if m.Context {
			sep = "-"
		}
		out = append(out, fmt.Sprintf("%s%s%d%s%s", m.Path, sep, m.Line, sep, m.Text))
	}
	out = append(out, r.Files...)
	for _, c := range r.Counts {
		out = append(out, fmt.Sprintf("%s:%d", c.Path, c.Count))
	}
	if r.Truncated {
		out = append(out, "...")
	}
	return strings.Join(out, "\n")
}

func TestGrep(t *testing.T) {
	f, dir := folder(t, nil,
		"a/one.go=package one\n\nfunc One() {}\n// one\n",
		"a/two.go=package two\nfunc Two() int {\n\treturn 2\n}",
		"b.txt=one\ntwo\nthree\nfour\nfive\nsix\nseven\n",
		"bin=one\x00two\n", ".git/one=one\n", ".hid=one\n", "link -> b.txt", "dir -> a",
		"crlf=one\r\ntwo\r\n", "invalid=one \xff\xfe two\n", "empty=", "n\xff=one\n",
		".gitignore=*.log\n/out/\n", "x.log=one\n", "out/x=one\n", "a/.gitignore=!x.log\n", "a/x.log=one\n",
	)
	for _, c := range []struct {
		r    GrepRequest
		want string
	}{
		{GrepRequest{Pattern: "one"}, ".hid\na/one.go\na/x.log\nb.txt\ncrlf\ninvalid\n\"n\\xff\""},
		{GrepRequest{Pattern: "one", Mode: ModeCount}, ".hid:1\na/one.go:2\na/x.log:1\nb.txt:1\ncrlf:1\ninvalid:1\n\"n\\xff\":1"},
		{GrepRequest{Pattern: "one", Ignored: true, Limit: 100}, ".hid\na/one.go\na/x.log\nb.txt\ncrlf\ninvalid\n\"n\\xff\"\nout/x\nx.log"},
		{GrepRequest{Pattern: "one", Path: ".git"}, ".git/one"},
		{GrepRequest{Pattern: "one", Path: "out"}, "out/x"},
		{GrepRequest{Pattern: "one", Path: "x.log"}, "x.log"},
		{GrepRequest{Pattern: "one", Path: "link"}, "link"},
		{GrepRequest{Pattern: "one", Path: "dir"}, "dir/one.go\ndir/x.log"},
		{GrepRequest{Pattern: "one", Path: dir + "/a"}, "a/one.go\na/x.log"},
		{GrepRequest{Pattern: "one", Limit: 2}, ".hid\na/one.go\n..."},
		{GrepRequest{Pattern: "one", Limit: 7}, ".hid\na/one.go\na/x.log\nb.txt\ncrlf\ninvalid\n\"n\\xff\""},
		{GrepRequest{Pattern: "one", Glob: "*.{go,txt}"}, "a/one.go\nb.txt"},
		{GrepRequest{Pattern: "one", Glob: "!*.{go,log}"}, ".hid\nb.txt\ncrlf\ninvalid\n\"n\\xff\""},
		{GrepRequest{Pattern: "one", Glob: "a/**"}, "a/one.go\na/x.log"},
		{GrepRequest{Pattern: "one", Glob: "/*.txt"}, "b.txt"},
		{GrepRequest{Pattern: "one", Glob: "one.go", Path: "a/one.go"}, "a/one.go"},
		{GrepRequest{Pattern: "one", Glob: "two.go", Path: "a/one.go"}, ""},
		{GrepRequest{Pattern: "^func", Mode: ModeContent}, "a/one.go:3:func One() {}\na/two.go:2:func Two() int {"},
		{GrepRequest{Pattern: "ONE$", IgnoreCase: true, Path: "a", Mode: ModeContent}, "a/one.go:1:package one\na/one.go:4:// one\na/x.log:1:one"},
		{GrepRequest{Pattern: "}$", Path: "a/two.go", Mode: ModeContent}, "a/two.go:4:}"},
		{GrepRequest{Pattern: "()", Literal: true, Path: "a", Mode: ModeContent}, "a/one.go:3:func One() {}\na/two.go:2:func Two() int {"},
		{GrepRequest{Pattern: "four", Path: "b.txt", Mode: ModeContent, Before: 1, After: 2}, "b.txt-3-three\nb.txt:4:four\nb.txt-5-five\nb.txt-6-six"},
		{GrepRequest{Pattern: "^t|six", Path: "b.txt", Mode: ModeContent, Before: 1, After: 1},
			"b.txt-1-one\nb.txt:2:two\nb.txt:3:three\nb.txt-4-four\nb.txt-5-five\nb.txt:6:six\nb.txt-7-seven"},
		{GrepRequest{Pattern: "^t|six", Path: "b.txt", Mode: ModeContent, After: 1, Limit: 2}, "b.txt:2:two\nb.txt:3:three\nb.txt-4-four\n..."},
		{GrepRequest{Pattern: "two", Path: "invalid", Mode: ModeContent}, "invalid:1:one \ufffd two"},
		{GrepRequest{Pattern: `two\s`, Path: "crlf", Mode: ModeContent}, "crlf:2:two\r"},
		{GrepRequest{Pattern: `o\s+t`, Path: "b.txt"}, ""},
		{GrepRequest{Pattern: `e\nt[^x]+r\n`, Path: "b.txt", Multiline: true, Mode: ModeContent}, "b.txt:1:one\nb.txt:2:two\nb.txt:3:three\nb.txt:4:four"},
		{GrepRequest{Pattern: `(?s)int.*}`, Path: "a", Multiline: true, Mode: ModeCount}, "a/two.go:3"},
		{GrepRequest{Pattern: `$`, Path: "a/two.go", Multiline: true, Mode: ModeCount}, "a/two.go:4"},
		{GrepRequest{Pattern: `\z`, Path: "b.txt", Multiline: true, Mode: ModeCount}, ""},
	} {
		got, err := f.Grep(context.Background(), c.r)
		if s := text(got); s != c.want || err != nil {
			t.Errorf("%+v:\n%s\nwant\n%s\n%v", c.r, s, c.want, err)
		}
	}
	got, err := f.Grep(context.Background(), GrepRequest{Pattern: "one"})
	if err != nil || got.Binary != 1 || got.Unreadable != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestGrepErrors(t *testing.T) {
	f, dir := folder(t, nil, "a/b", "etc -> /etc")
	check(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	for _, c := range []struct {
		r   GrepRequest
		err error
	}{
		{GrepRequest{}, ErrPattern},
		{GrepRequest{Pattern: "a("}, ErrPattern},
		{GrepRequest{Pattern: `(a)\1`}, ErrPattern},
		{GrepRequest{Pattern: "a\nb"}, ErrPattern},
		{GrepRequest{Pattern: `a|b\n`}, ErrPattern},
		{GrepRequest{Pattern: "\xff"}, ErrPattern},
		{GrepRequest{Pattern: strings.Repeat("a", maxPattern+1)}, ErrPattern},
		{GrepRequest{Pattern: "((a{100}){100}){100}"}, ErrPattern},
		{GrepRequest{Pattern: "a", Glob: "[a"}, ErrPattern},
		{GrepRequest{Pattern: "a", Glob: "!"}, ErrPattern},
		{GrepRequest{Pattern: "a", Mode: "lines"}, ErrRequest},
		{GrepRequest{Pattern: "a", Limit: -1}, ErrRequest},
		{GrepRequest{Pattern: "a", Before: MaxContext + 1}, ErrRequest},
		{GrepRequest{Pattern: "a", After: -1}, ErrRequest},
		{GrepRequest{Pattern: "a", Path: "none"}, fs.ErrNotExist},
		{GrepRequest{Pattern: "a", Path: "../x"}, ErrOutside},
		{GrepRequest{Pattern: "a", Path: "etc"}, ErrOutside},
		{GrepRequest{Pattern: "a", Path: "fifo"}, ErrNotRegular},
	} {
		if got, err := f.Grep(context.Background(), c.r); !errors.Is(err, c.err) {
			t.Errorf("%+v: %+v, %v", c.r, got, err)
		}
	}
	// It passes by what is not a regular file.
	if got, err := f.Grep(context.Background(), GrepRequest{Pattern: "b"}); err != nil || text(got) != "a/b" {
		t.Errorf("%+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.Grep(ctx, GrepRequest{Pattern: "b"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestGrepHidden: what is hidden is not searched, nor found.
func TestGrepHidden(t *testing.T) {
	f, dir := folder(t, []string{"a/dir", "a/file"}, "a/dir/key", "a/file", "b/open", "link -> a/file", "dirlink -> a/dir", "a/open")
	check(t, os.Link(filepath.Join(dir, "a/file"), filepath.Join(dir, "b/hard")))
	see := func(grep, glob string) {
		t.Helper()
		g, err := f.Grep(context.Background(), GrepRequest{Pattern: "."})
		if s := text(g); err != nil || s != grep {
			t.Errorf("grep: %q, %v", s, err)
		}
		p, err := f.Glob(context.Background(), GlobRequest{Pattern: "**"})
		if s := sorted(p.Paths); err != nil || s != glob {
			t.Errorf("glob: %s, %v", s, err)
		}
	}
	see("a/open\nb/open", "a/open b/open dirlink link")
	for _, p := range []string{"a/dir", "a/dir/key", "a/file", "link", "dirlink", "b/hard"} {
		if got, err := f.Grep(context.Background(), GrepRequest{Pattern: ".", Path: p}); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %+v, %v", p, got, err)
		}
	}
	if got, err := f.Glob(context.Background(), GlobRequest{Pattern: "a/dir/*"}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%+v, %v", got, err)
	}
	check(t, os.Rename(filepath.Join(dir, "a/dir"), filepath.Join(dir, "b/dir")))
	check(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "c")))
	see("b/open\nc/open", "b/open c/open dirlink link")
}

func sorted(paths []string) string {
	slices.Sort(paths)
	return strings.Join(paths, " ")
}

// TestUnreadable: what may not be read is counted and passed by.
func TestUnreadable(t *testing.T) {
	require.Ordinary(t)
	f, dir := folder(t, nil, "a=x\n", "d/b=x\n", "e/c=x\n")
	check(t, os.Chmod(filepath.Join(dir, "a"), 0))
	check(t, os.Chmod(filepath.Join(dir, "d"), 0))
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "d"), 0o700) })
	got, err := f.Grep(context.Background(), GrepRequest{Pattern: "x"})
	if err != nil || text(got) != "e/c" || got.Unreadable != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	found, err := f.Glob(context.Background(), GlobRequest{Pattern: "**"})
	if err != nil || sorted(found.Paths) != "a e/c" || found.Unreadable != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := f.Read(context.Background(), ReadRequest{Path: "a"}); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}

// naive is what a search line by line finds.
func naive(re *regexp.Regexp, content []byte) (lines []int) {
	if len(content) == 0 {
		return nil
	}
	for i, l := range bytes.Split(bytes.TrimSuffix(content, []byte("\n")), []byte("\n")) {
		if re.Match(l) {
			lines = append(lines, i+1)
		}
	}
	return lines
}

// patterns makes patterns of a small alphabet, which the contents are of, too.
func patterns() *rapid.Generator[string] {
	atom := rapid.SampledFrom([]string{
		"a", "b", "ab", "ka", "sk", "K", "é", "[ab]", "[^a]", ".", `\w`, `\W`, `\s`, `\b`, `\B`, "^", "$", `\A`, `\z`, `\d`, `\pL`, "aab", "_", "(?i)s", "", "\\.", "(?s:.)",
	})
	return rapid.Custom(func(t *rapid.T) string {
		out := ""
		for range rapid.IntRange(1, 5).Draw(t, "atoms") {
			a := atom.Draw(t, "atom")
			if rapid.IntRange(0, 3).Draw(t, "group") == 0 {
				a = "(?:" + a + "|" + atom.Draw(t, "other") + ")"
			}
			out += a + rapid.SampledFrom([]string{"", "", "", "*", "+", "?", "{2}", "{1,2}"}).Draw(t, "repeat")
		}
		return out
	})
}

func contents() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "k", "s", "K", "S", "\u212a", "\u017f", "é", "\xff", "\xc3", " ", "\n", "\n", "_", "1", ".", "aab", "\r\n"}), 0, 60).Draw(t, "content")
		return strings.Join(pieces, "")
	})
}

// TestSearchAsRegexp: the lines found are those that package regexp matches one
// by one, also when a file comes in pieces.
func TestSearchAsRegexp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := patterns().Draw(t, "pattern")
		fold := rapid.Bool().Draw(t, "ignore case")
		flags := "(?m)"
		if fold {
			flags = "(?mi)"
		}
		re, err := regexp.Compile(flags + pattern)
		if err != nil || pattern == "" {
			t.Skip("no pattern")
		}
		q, err := compile(pattern, false, fold, false)
		check2(t, err)
		s := newSearcher(q)
		if s.dfa != nil && rapid.IntRange(0, 9).Draw(t, "give up") == 0 {
			s.dfa.dead = true
		}
		for range 5 {
			content := []byte(contents().Draw(t, "content"))
			var got []int
			c := &collector{mode: ModeContent, most: 1000, bytes: 1 << 20}
			c.search(s, content, 0)
			for _, m := range c.matches {
				got = append(got, m.Line)
			}
			if want := naive(re, content); !slices.Equal(got, want) {
				t.Fatalf("%q in %q: lines %v, want %v (needle %q, exact %v)", pattern, content, got, want, q.need.text, q.exact)
			}
		}
	})
}

func check2(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// TestGrepAsGrep: grep finds the same in the same tree, lines and context.
func TestGrepAsGrep(t *testing.T) {
	program := require.Program(t, "grep", "grep")
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		check2(rt, err)
		for range rapid.IntRange(1, 6).Draw(rt, "files") {
			name := rapid.SampledFrom([]string{"a", "b", "a/c", "a-b/x", "d/e/f", "z"}).Draw(rt, "name")
			content := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", " ", "\n", "\n", "x1", "A"}), 0, 80).Draw(rt, "content"), "")
			path := filepath.Join(dir, name)
			if os.MkdirAll(filepath.Dir(path), 0o755) == nil {
				_ = os.WriteFile(path, []byte(content), 0o644) // or a directory is there
			}
		}
		f := open(t, dir, nil)
		defer f.Close()
		pattern := rapid.SampledFrom([]string{"ab", "a+b", "^a", "b$", "[ab]x?1", "a|x", "^$", "(ab)+", "a.b", "q"}).Draw(rt, "pattern")
		before, after := rapid.IntRange(0, 3).Draw(rt, "before"), rapid.IntRange(0, 3).Draw(rt, "after")
		r := GrepRequest{Pattern: pattern, Mode: ModeContent, Before: before, After: after, IgnoreCase: rapid.Bool().Draw(rt, "fold")}
		args := []string{"-rnE", "-B", fmt.Sprint(before), "-A", fmt.Sprint(after)}
		if r.IgnoreCase {
			args = append(args, "-i")
		}
		cmd := exec.Command(program, append(args, "-e", pattern)...)
		cmd.Dir, cmd.Env = dir, []string{"LC_ALL=C"}
		out, _ := cmd.Output()
		got, err := f.Grep(context.Background(), r)
		check2(rt, err)
		if a, b := byFile(text(got)), byFile(string(out)); a != b {
			rt.Fatalf("%+v:\n%s\ngrep:\n%s", r, a, b)
		}
	})
}

// byFile sorts lines by file: grep takes files as they come.
func byFile(s string) string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSuffix(s, "\n"), "\n"), func(l string) bool { return l == "--" })
	key := func(l string) string { return regexp.MustCompile(`[:-]\d+[:-]`).Split(l, 2)[0] }
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(key(a), key(b)) })
	return strings.Join(lines, "\n")
}

// TestLargeFile: a file comes in pieces; lines, their numbers and their context
// are right across them, and memory is bounded.
func TestLargeFile(t *testing.T) {
	f, dir := folder(t, nil)
	var b bytes.Buffer
	var want []string
	line := 0
	add := func(s string) { b.WriteString(s + "\n"); line++ }
	for b.Len() < 3<<20 {
		for range 7 + line%97 {
			add(fmt.Sprintf("line %d %s", line+1, strings.Repeat("x", line%211)))
		}
		want = append(want, fmt.Sprintf("f-%d-%s", line, strings.TrimPrefix(lastLine(b.Bytes()), "\n")))
		add("a needle here")
		want = append(want, fmt.Sprintf("f:%d:a needle here", line))
		add("behind")
		want = append(want, fmt.Sprintf("f-%d-behind", line))
	}
	check(t, os.WriteFile(filepath.Join(dir, "f"), b.Bytes(), 0o644))
	got, err := f.Grep(context.Background(), GrepRequest{Pattern: "need.e", Mode: ModeContent, Before: 1, After: 1, Limit: MaxLimit})
	check(t, err)
	if text(got) != strings.Join(want, "\n") {
		t.Errorf("%d lines, want %d", len(got.Matches), len(want))
	}
	// One line that is longer than what is kept of it.
	file, err := os.Create(filepath.Join(dir, "f"))
	check(t, err)
	for range 40 {
		_, err = file.Write(bytes.Repeat([]byte("y"), 1<<20))
		check(t, err)
	}
	_, err = file.WriteString("needle\nshort needle\n")
	check(t, errors.Join(err, file.Close()))
	got, err = f.Grep(context.Background(), GrepRequest{Pattern: "need.e", Mode: ModeContent, Before: 1})
	check(t, err)
	if n := len(got.Matches); n != 2 || got.Matches[1].Text != "short needle" || got.Matches[1].Line != 2 || !got.Matches[0].Cut || len(got.Matches[0].Text) != MaxText {
		t.Errorf("%d matches", n)
	}
	got, err = f.Grep(context.Background(), GrepRequest{Pattern: "need.e", Multiline: true})
	if err != nil || got.TooLarge != 1 || got.Files != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func lastLine(b []byte) string {
	b = bytes.TrimSuffix(b, []byte("\n"))
	return string(b[bytes.LastIndexByte(b, '\n')+1:])
}

// TestManyStates: a pattern with more states than are kept is searched all the
// same.
func TestManyStates(t *testing.T) {
	pattern := `a.{30}b.{30}c|(?:x.*){12}y\b`
	q, err := compile(pattern, false, false, false)
	check(t, err)
	s := newSearcher(q)
	re := regexp.MustCompile("(?m)" + pattern)
	var content []byte
	for i := range 300_000 {
		content = append(content, "aabbxxcy \n"[(i*i/7+i*31+i/1000)%(9+(i%7)/6)])
	}
	c := &collector{mode: ModeContent, most: 1 << 30, bytes: 1 << 30}
	c.search(s, content, 0)
	var got []int
	for _, m := range c.matches {
		got = append(got, m.Line)
	}
	if want := naive(re, content); !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
	if !s.dfa.dead && s.dfa.restarts == 0 {
		t.Errorf("only %d states", len(s.dfa.sets))
	}
	t.Logf("%d restarts, gave up %v", s.dfa.restarts, s.dfa.dead)
}
