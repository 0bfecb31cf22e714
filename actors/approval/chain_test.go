package approval

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type object struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

// written makes a log of n lines.
func written(t testing.TB, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log.jsonl")
	appended(t, path, 0, n)
	return path
}

func appended(t testing.TB, path string, from, n int) {
	t.Helper()
	w, _, err := OpenChain(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := w.Append(object{N: from + i, Text: "\"prev\":\"x\"} \u202e \n"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func problems(t testing.TB, path string) []ChainProblem {
	t.Helper()
	r, err := ChainFile(path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Problems
}

func lines(t testing.TB, path string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.SplitAfter(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
}

func chainPut(t testing.TB, path string, parts ...[]byte) {
	t.Helper()
	if err := os.WriteFile(path, bytes.Join(parts, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestChainGoesOnOverWriters(t *testing.T) {
	path := written(t, 3)
	appended(t, path, 3, 2)
	var seen int
	hash := ""
	r, err := ChainFile(path, "", func(l ChainLine) error {
		if seen++; l.Number == 2 {
			hash = l.Hash
		}
		if !l.Chained || (l.Number == 1) != (l.Prev == "") {
			t.Errorf("line %d: %+v", l.Number, l)
		}
		return nil
	})
	if err != nil || len(r.Problems) > 0 || r.Lines != 5 || seen != 5 || r.Unchained != 0 {
		t.Fatalf("%+v, %v, %d", r, err, seen)
	}
	if r, err := ChainFile(path, hash, nil); err != nil || !r.Contains {
		t.Fatalf("hash of line 2: %+v, %v", r, err)
	}
	if r, err := ChainFile(path, strings.Repeat("0", 64), nil); err != nil || r.Contains {
		t.Fatalf("no line's hash: %+v, %v", r, err)
	}
}

// Any single change of the log or the head is found: a byte, a line that is missing,
// twice, or elsewhere, an end that was cut away.
func TestEveryChangeIsFound(t *testing.T) {
	path := written(t, 6)
	whole := lines(t, path)
	whole[5] = append(whole[5], '\n')
	head, err := os.ReadFile(headFile(path))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		now := make([][]byte, len(whole))
		copy(now, whole)
		i := rapid.IntRange(0, 5).Draw(t, "line")
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0: // a byte
			b := bytes.Clone(whole[i])
			at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			b[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
			now[i] = b
		case 1: // gone
			now = append(now[:i:i], now[i+1:]...)
		case 2: // twice
			now = append(now[:i+1:i+1], now[i:]...)
		case 3: // swapped
			j := rapid.IntRange(0, 5).Filter(func(j int) bool { return j != i }).Draw(t, "with")
			now[i], now[j] = now[j], now[i]
		case 4: // the end
			now = now[:i]
		case 5: // in the middle of the last line
			now[5] = whole[5][:rapid.IntRange(0, len(whole[5])-1).Draw(t, "left")]
		}
		if err := os.WriteFile(path, bytes.Join(now, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := ChainFile(path, "", nil)
		if err != nil || len(r.Problems) == 0 {
			t.Fatalf("not found: %+v, %v\n%s", r, err, bytes.Join(now, nil))
		}
	})
	chainPut(t, path, whole...)
	if got := problems(t, path); len(got) > 0 {
		t.Fatalf("as it was: %v", got)
	}
	for name, b := range map[string][]byte{"damaged": []byte("{"), "another": []byte(`{"lines":6,"hash":"00"}`), "empty": {}} {
		chainPut(t, headFile(path), b)
		if len(problems(t, path)) == 0 {
			t.Errorf("head %s: not found", name)
		}
	}
	if err := os.Remove(headFile(path)); err != nil {
		t.Fatal(err)
	}
	if len(problems(t, path)) == 0 {
		t.Error("no head: not found")
	}
	chainPut(t, headFile(path), head)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if len(problems(t, path)) == 0 {
		t.Error("no log: not found")
	}
}

// A writer that was killed after its line and before its head harms nothing.
func TestKilledBeforeTheHead(t *testing.T) {
	path := written(t, 2)
	head, err := os.ReadFile(headFile(path))
	if err != nil {
		t.Fatal(err)
	}
	appended(t, path, 2, 1)
	chainPut(t, headFile(path), head)
	if got := problems(t, path); len(got) > 0 {
		t.Fatal(got)
	}
	appended(t, path, 3, 1)
	if got := problems(t, path); len(got) > 0 {
		t.Fatal(got)
	}
}

// What was found damaged stays so, whoever goes on writing.
func TestDamageIsNotHealed(t *testing.T) {
	for name, cut := range map[string]int{"the end": 0, "a line in two": 20} {
		path := written(t, 3)
		all := lines(t, path)
		chainPut(t, path, all[0], all[1], all[2][:cut])
		w, found, err := OpenChain(path)
		if err != nil || len(found.Problems) == 0 {
			t.Fatalf("%s: %+v, %v", name, found, err)
		}
		if err := w.Append(object{N: 9}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := ChainFile(path, "", nil)
		if err != nil || cut > 0 && len(r.Problems) == 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if b := lines(t, path); !strings.HasPrefix(string(b[len(b)-1]), `{"n":9,`) {
			t.Errorf("%s: %q", name, b)
		}
	}
}

// Lines of a version that did not chain are pinned by the first that is chained.
func TestOlderLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	chainPut(t, path, []byte("{\"n\":1}\n{\"n\":2}\n"))
	if got := problems(t, path); len(got) > 0 {
		t.Fatal(got)
	}
	appended(t, path, 3, 1)
	r, err := ChainFile(path, "", nil)
	if err != nil || len(r.Problems) > 0 || r.Unchained != 2 || r.Lines != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	all := lines(t, path)
	chainPut(t, path, all[0], []byte("{\"n\":5}\n"), all[2], []byte("\n"))
	if len(problems(t, path)) == 0 {
		t.Error("a changed line of the older version is not found")
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	chainPut(t, outside, nil)
	for _, name := range []string{"log.jsonl", "log.head"} {
		path := filepath.Join(dir, "log.jsonl")
		if err := os.Symlink(outside, filepath.Join(dir, name)); err != nil {
			t.Skip("no symbolic links here: ", err)
		}
		if _, _, err := OpenChain(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s is a link: %v", name, err)
		}
		if _, err := ChainFile(path, "", nil); err == nil {
			t.Errorf("%s is a link: read", name)
		}
		_ = os.RemoveAll(filepath.Join(dir, name))
	}
	if b, err := os.ReadFile(outside); err != nil || len(b) > 0 {
		t.Errorf("outside: %q, %v", b, err)
	}
	path := written(t, 1)
	chainPut(t, path, bytes.Repeat([]byte("x"), 3*MaxChainLine), []byte("\n"))
	if got := problems(t, path); len(got) == 0 || !strings.Contains(got[0].What, "longer") {
		t.Errorf("a long line: %v", got)
	}
}

func TestBadObjects(t *testing.T) {
	path := written(t, 1)
	w, _, err := OpenChain(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, o := range []any{1, nil, []int{1}, func() {}, object{Text: strings.Repeat("x", MaxChainLine)}} {
		if w.Append(o) == nil {
			t.Errorf("%T is a line", o)
		}
	}
	if err := w.Append(struct{}{}); err != nil {
		t.Error(err)
	}
	if got := problems(t, path); len(got) > 0 {
		t.Error(got)
	}
}

func FuzzRead(f *testing.F) {
	path := written(f, 3)
	b, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, 3)
	f.Add([]byte("{\"n\":1}\n{}\n"), 0)
	f.Add([]byte("{\"prev\":7}\n\n\x00"), 9)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		count := 0
		r, err := ReadChain(bytes.NewReader(b), &ChainHead{Lines: n}, "", func(l ChainLine) error {
			if count++; len(l.Raw) > MaxChainLine+1 || l.Number != count {
				return fmt.Errorf("line %d of %d bytes", l.Number, len(l.Raw))
			}
			return nil
		})
		if err != nil || r.Lines != count || r.Unchained > r.Lines || len(r.Problems) > mostProblems {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}
