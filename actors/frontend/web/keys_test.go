package web

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	first  = "0123456789abcdef"
	second = "fedcba9876543210fedcba9876543210"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes a file that only this user can read.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestParseKeys(t *testing.T) {
	list, err := ParseKeys([]byte("# ours\n\n" + first + "\n  " + second + "\tteam-a\r\n"))
	must(t, err)
	if len(list) != 2 || list[0].Name != "" || list[1].Name != "team-a" {
		t.Errorf("%+v", list)
	}
	for name, c := range map[string]struct{ text, says string }{
		"nothing":     {"# none\n", "no key"},
		"short":       {first[:15], "line 1: the key has 15 characters"},
		"long":        {strings.Repeat("x", MaxKeyBytes+1), "line 1: the key has 257"},
		"words":       {first + " a b", "line 1: more than a key and a name"},
		"twice":       {first + "\n\n" + first + " b", "line 3: the key of line 1 once more"},
		"letters":     {first + "ü", "line 1: a key, and a name"},
		"control":     {first + "\x01", "line 1: a key, and a name"},
		"a long name": {first + " " + strings.Repeat("n", maxKeyName+1), "line 1: a key, and a name"},
		"many":        {many(MaxKeys + 1), "more than 10000 keys"},
	} {
		_, err := ParseKeys([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), first) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat("k", MinKeyBytes) + string(rune('a'+i%26)) + strings.Repeat(string(rune('a'+i/26%26)), 1+i/26/26) + "\n")
	}
	return b.String()
}

// TestKeysAreReadAgain: a key that was struck off opens nothing any more, and a list that cannot be read opens nothing at all.
func TestKeysAreReadAgain(t *testing.T) {
	path := write(t, "keys", first+"\n")
	keys, err := OpenKeys(path, nil)
	must(t, err)
	find := func(secret string, want bool, when string) {
		t.Helper()
		if _, got := keys.Find(secret); got != want {
			t.Errorf("%s: %v", when, got)
		}
	}
	find(first, true, "at first")
	find(first[:len(first)-1], false, "a part of it")
	find("", false, "none")
	must(t, os.WriteFile(path, []byte(second+" b\n"), 0o600))
	find(first, false, "struck off")
	find(second, true, "added")
	if k, _ := keys.Find(second); k.Name != "b" {
		t.Errorf("the name: %q", k.Name)
	}
	must(t, os.WriteFile(path, []byte("short\n"), 0o600))
	find(second, false, "a bad list")
	must(t, os.Remove(path))
	find(second, false, "no list")
	other := write(t, "other", second)
	must(t, os.Rename(other, path))
	find(second, true, "a list again")
	var none *Keys
	if _, ok := none.Find(first); ok {
		t.Error("no keys at all let somebody in")
	}
}

func TestKeysHandler(t *testing.T) {
	keys, err := OpenKeys(write(t, "keys", first), nil)
	must(t, err)
	h := keys.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for header, want := range map[string]int{
		"": 401, "Bearer": 401, "Bearer ": 401, "Bearer x": 401, "Basic " + first: 401, first: 401, "Bearer " + first + "x": 401,
		"Bearer " + first: 418, "bearer  " + first + " ": 418,
	} {
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		h.ServeHTTP(w, r)
		if w.Code != want || want == 401 && w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%q: %d %v", header, w.Code, w.Header())
		}
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(first + " a\n# b\n" + second))
	f.Add([]byte("\x00\r\n\t" + first))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := ParseKeys(text)
		if err != nil {
			return
		}
		if len(list) == 0 || len(list) > MaxKeys || len(list) > len(text)/MinKeyBytes {
			t.Errorf("%d keys", len(list))
		}
		for _, k := range list {
			if len(k.Name) > maxKeyName || strings.ContainsAny(k.Name, " \n\x00") {
				t.Errorf("name %q", k.Name)
			}
		}
	})
}
