package manual

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// hostile is a command whose texts are full of what roff takes for its own.
func hostile() *cobra.Command {
	run := func(*cobra.Command, []string) error { return nil }
	root := &cobra.Command{Use: "prog", Short: `Print \fBwhat\fR is "there"`, RunE: run}
	sub := &cobra.Command{
		Use: "sub [flags] -- 'FILE'...", Short: ".SH is no title here", RunE: run,
		Long: "'quoted at the start\n.SH nor here, nor \\n(.$ in a text that is longer than a line of the source may be, with --flags\n\n" +
			"  prog sub --a      " + strings.Repeat("'. \\ ", 40) + "\n  .TP in a verbatim part\n\nÜmläute, and\ta tab.",
		Example: "prog sub 'a b' \\\n.nf",
	}
	sub.Flags().StringP("level", "l", "", "the `.LEVEL` of \\fI")
	sub.Flags().Bool("secret", false, "nobody sees it")
	_ = sub.Flags().MarkHidden("secret")
	root.PersistentFlags().Bool("json", false, "'print' data")
	root.AddCommand(sub, &cobra.Command{Use: "unseen", Hidden: true, RunE: run})
	return root
}

var day = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

func TestPagesOfHostileText(t *testing.T) {
	dir := t.TempDir()
	if err := Write(hostile(), dir, day); err != nil {
		t.Fatal(err)
	}
	pages, _ := filepath.Glob(filepath.Join(dir, "man1", "*"))
	if len(pages) != 2 {
		t.Fatalf("pages: %q", pages)
	}
	mandoc := require.Program(t, "mandoc", "mandoc")
	if out, err := exec.Command(mandoc, append([]string{"-T", "lint"}, pages...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("mandoc -T lint: %v\n%s", err, out)
	}
	out, err := exec.Command(mandoc, "-T", "utf8", "-O", "width=300", filepath.Join(dir, "man1", "prog-sub.1")).Output()
	if err != nil {
		t.Fatal(err)
	}
	text := unstruck(string(out))
	for _, want := range []string{
		"'quoted at the start .SH nor here, nor \\n(.$ in a text", "  .TP in a verbatim part", strings.TrimSpace(strings.Repeat("'. \\ ", 40)),
		"Ümläute", "-l, --level .LEVEL", "the .LEVEL of \\fI.", "--json", "prog sub 'a b' \\\n", ".nf", "prog sub [flags] -- 'FILE'...",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(text, "secret") || strings.Contains(text, "unseen") {
		t.Error("the page shows what is hidden")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// unstruck is what mandoc prints without its bold and underlined characters.
func unstruck(text string) string {
	var out []rune
	for _, r := range text {
		if r == '\b' && len(out) > 0 {
			out = out[:len(out)-1]
			continue
		}
		out = append(out, r)
	}
	return string(out)
}

func TestCompletions(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // into a directory that is there already, too
		if err := Write(hostile(), dir, day); err != nil {
			t.Fatal(err)
		}
	}
	for file, want := range map[string]string{"prog.bash": "__start_prog", "_prog": "#compdef prog", "prog.fish": "complete -c prog"} {
		text, err := os.ReadFile(filepath.Join(dir, "completions", file))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, and it should contain %q", file, err, want)
		}
	}
}
