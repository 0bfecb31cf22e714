package shellquote

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	for want, words := range map[string][]string{
		"":                       nil,
		"''":                     {""},
		"a-b_./=:,+@%Z9 b":       {"a-b_./=:,+@%Z9", "b"},
		`'a b' 'é' 'it'\''s' ''`: {"a b", "é", "it's", ""},
		"'~' '*' '$x' 'a\nb'":    {"~", "*", "$x", "a\nb"},
	} {
		if got := Words(words...); got != want {
			t.Errorf("%q: %s, want %s", words, got, want)
		}
	}
}

// TestWordsShell: a shell reads what was written.
func TestWordsShell(t *testing.T) {
	words := []string{"", "'", "\\", "a'b\"c", "$(id)", "`", "\t", "x y", "\xff", "!", "#", "plain"}
	out, err := exec.Command("sh", "-c", `printf '%s\0' `+Words(words...)).Output()
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err != nil || !slices.Equal(got, words) {
		t.Errorf("%q, %v", got, err)
	}
}
