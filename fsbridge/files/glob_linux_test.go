package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"pgregory.net/rapid"

	"github.com/codeagent/sandbox/tests/kit/require"
)

func TestGlob(t *testing.T) {
	f, dir := folder(t, nil, "a/x.go", "a/b/y.go", "z.go", "z.txt", "link -> a", ".git/x.go", ".gitignore=*.log\nout/\n", "x.log", "out/x.go", "n\xff.go")
	for _, c := range []struct {
		r    GlobRequest
		want string
	}{
		{GlobRequest{Pattern: "**/*.go"}, `"n\xff.go" a/b/y.go a/x.go z.go`},
		{GlobRequest{Pattern: "*.{go,txt}"}, `"n\xff.go" z.go z.txt`},
		{GlobRequest{Pattern: "*.go", Path: "a"}, "a/x.go"},
		{GlobRequest{Pattern: "../*.txt", Path: "a"}, "z.txt"},
		{GlobRequest{Pattern: dir + "/a/**"}, "a/b/y.go a/x.go"},
		{GlobRequest{Pattern: "a/x.go"}, "a/x.go"},
		{GlobRequest{Pattern: "link/*"}, "link/x.go"},
		{GlobRequest{Pattern: "*"}, `"n\xff.go" .gitignore link z.go z.txt`},
		{GlobRequest{Pattern: "**/"}, "a a/b"},
		{GlobRequest{Pattern: "**/x.*", Ignored: true}, "a/x.go out/x.go x.log"},
		{GlobRequest{Pattern: "out/*"}, "out/x.go"},
		{GlobRequest{Pattern: ".git/*"}, ".git/x.go"},
		{GlobRequest{Pattern: "none/**"}, ""},
		{GlobRequest{Pattern: "z.go/*"}, ""},
	} {
		got, err := f.Glob(context.Background(), c.r)
		if s := sorted(got.Paths); s != c.want || err != nil || got.Truncated {
			t.Errorf("%+v: %s, %v", c.r, s, err)
		}
	}
	for pattern, want := range map[string]error{
		"": ErrPattern, "[a": ErrPattern, "{a": ErrPattern, `a\`: ErrPattern, "*/../x": ErrPattern, "a\x00": ErrPattern,
		strings.Repeat("{a,b}", 20): ErrPattern, "/": ErrOutside, "/etc/*": ErrOutside, "../*": ErrOutside, "a/../../*": ErrOutside,
	} {
		if got, err := f.Glob(context.Background(), GlobRequest{Pattern: pattern}); !errors.Is(err, want) {
			t.Errorf("%q: %+v, %v", pattern, got, err)
		}
	}
	if _, err := f.Glob(context.Background(), GlobRequest{Pattern: "*", Path: "none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestGlobNewest: the newest come first, and are what a limit leaves.
func TestGlobNewest(t *testing.T) {
	f, dir := folder(t, nil, "a", "b", "c", "d")
	for name, age := range map[string]int{"a": 3, "b": 1, "c": 2, "d": 2} {
		at := time.Now().Add(-time.Duration(age) * time.Hour).Truncate(time.Second)
		check(t, os.Chtimes(filepath.Join(dir, name), at, at))
	}
	// c and d are of the same second, a moment apart from each other's.
	at := time.Now().Truncate(time.Second).Add(-2 * time.Hour)
	check(t, errors.Join(os.Chtimes(filepath.Join(dir, "c"), at, at), os.Chtimes(filepath.Join(dir, "d"), at, at)))
	got, err := f.Glob(context.Background(), GlobRequest{Pattern: "*", Limit: 3})
	if s := strings.Join(got.Paths, " "); err != nil || s != "b c d" || !got.Truncated {
		t.Errorf("%s, truncated %v, %v", s, got.Truncated, err)
	}
}

// TestGlobAsDoublestar: what is found is what doublestar says of each path.
func TestGlobAsDoublestar(t *testing.T) {
	names := []string{"a/b/c", "a/b.go", "a/x/b.go", "b/a", "b/b/b/b", "ab", "c.go", "{a}", "[b]"}
	f, _ := folder(t, nil, names...)
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*", "?", "**", "/", "/", ".go", "{a,b}", "[ab]", "[!a]", "c", `\{`, "{a,b/**}"}), 1, 7).Draw(t, "pattern"), "")
		if strings.HasPrefix(pattern, "/") || strings.HasSuffix(pattern, "/") || strings.Contains(pattern, "//") {
			t.Skip("another meaning")
		}
		if base, _ := doublestar.SplitPattern(pattern); slices.Contains(names, base) {
			t.Skip("the library finds file in file/**")
		}
		var want []string
		theirs := strings.ReplaceAll(pattern, "[!a]", "[!a/]") // see package texts
		for _, n := range names {
			if ok, err := doublestar.Match(theirs, n); err != nil {
				t.Skip(err)
			} else if ok {
				want = append(want, n)
			}
		}
		got, err := f.Glob(context.Background(), GlobRequest{Pattern: pattern})
		slices.Sort(want)
		if s := sorted(got.Paths); err != nil || s != strings.Join(want, " ") {
			t.Fatalf("%q: %s, want %v; %v", pattern, s, want, err)
		}
	})
}

// TestIgnoresAsGit: git leaves out the same files.
func TestIgnoresAsGit(t *testing.T) {
	git := require.Program(t, "git", "git")
	names := []string{"a", "b", "a.o", "d/a", "d/b.o", "d/e/a", "d/e/f/a.o", "e/a", "e/f/b", "x y", "#a", "!b"}
	// git compares the text before the first wildcard by itself, and so takes the
	// "**" of "e**/b" for one at the beginning. Its manual says otherwise, as we do.
	// And it takes the backslash of "**\/a" for nothing.
	quirk := regexp.MustCompile(`[^/*]\*\*|\*\*\\/`)
	line := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "d", "e", "*", "**", "**/", "/", "/", ".o", "?", "[ab]", "[!a]", "!", "#", `\`, " ", "[[:alpha:]]"}), 1, 5).Draw(t, "line"), "")
	}).Filter(func(l string) bool { return !quirk.MatchString(l) })
	rapid.Check(t, func(rt *rapid.T) {
		root, deeper := rapid.SliceOfN(line, 1, 4).Draw(rt, "root"), rapid.SliceOfN(line, 0, 2).Draw(rt, "d")
		all := append([]string{".gitignore=" + strings.Join(root, "\n"), "d/.gitignore=" + strings.Join(deeper, "\n")}, names...)
		f, dir := folder(t, nil, all...)
		defer f.Close()
		run := func(args ...string) string {
			cmd := exec.Command(git, args...)
			cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir)}
			out, err := cmd.Output()
			check2(rt, err)
			return string(out)
		}
		run("init", "-q")
		want := strings.Split(strings.TrimSuffix(run("ls-files", "-z", "--others", "--exclude-standard"), "\x00"), "\x00")
		got, err := f.Glob(context.Background(), GlobRequest{Pattern: "**"})
		slices.Sort(want)
		if s := sorted(got.Paths); err != nil || s != strings.Join(want, " ") {
			rt.Fatalf("%q and %q: %s, want %s; %v", root, deeper, s, strings.Join(want, " "), err)
		}
	})
}
