package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestElsewhere: the doctor promises no command that needs the undo log, as long as the
// log cannot be opened on other systems than Linux.
func TestElsewhere(t *testing.T) {
	source, err := os.ReadFile("../../../../fsbridge/undolog/other.go")
	if err != nil {
		t.Fatal(err)
	}
	const open = "func Open(context.Context, Options) (*Log, error) { return nil, errors.ErrUnsupported }"
	if !strings.Contains(string(source), open) {
		t.Fatal("the undo log can be opened on other systems now: say what works there, and test that instead")
	}
	for _, goos := range []string{"darwin", "windows"} {
		f := elsewhere(goos)
		if len(f) != 1 || f[0].State != "fail" || !strings.Contains(f[0].Detail, goos) {
			t.Fatalf("%s: %+v", goos, f)
		}
		words := func(text string) []string {
			return strings.FieldsFunc(text, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz", r) })
		}
		for _, command := range []string{"run", "serve", "history", "show", "diff", "undo", "redo", "restore", "status", "gc"} {
			if !slices.Contains(words(f[0].Detail), command) {
				t.Errorf("%s: nothing is said of %s", goos, command)
			}
			if slices.Contains(words(f[0].Advice), command) {
				t.Errorf("%s: %s is said to work", goos, command)
			}
		}
	}
}
