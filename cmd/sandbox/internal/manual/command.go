package manual

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// Command is 'sandbox manual', which the help does not show: packagers need it once.
func Command() *cobra.Command {
	var date string
	cmd := &cobra.Command{
		Use:    "manual DIR",
		Short:  "Write the manual pages and the completions of shells into a directory",
		Hidden: true,
		Long: "Write a manual page for each command into DIR/man1, and the completions of bash, zsh and fish into DIR/completions.\n" +
			"Those who make packages need it.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return console.Usagef("name one directory")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			day, err := time.Parse(time.DateOnly, date)
			if err != nil {
				return console.Usagef("--date: %q is not a date such as 2026-11-23", date)
			}
			return Write(cmd.Root(), args[0], day)
		},
	}
	cmd.Flags().StringVar(&date, "date", time.Now().Format(time.DateOnly), "the `date` that the pages show")
	return cmd
}

// Write writes the pages and completions of root's commands below dir, which is made
// if it is not there.
func Write(root *cobra.Command, dir string, day time.Time) error {
	pages := filepath.Join(dir, "man1")
	if err := os.MkdirAll(pages, 0o755); err != nil { //nolint:gosec // for everybody to read, as what is beside it
		return err
	}
	var visit func(cmd *cobra.Command) error
	visit = func(cmd *cobra.Command) error {
		if err := write(filepath.Join(pages, pageName(cmd)+".1"), Page(cmd, day)); err != nil {
			return err
		}
		for _, c := range shown(cmd) {
			if err := visit(c); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit(root); err != nil {
		return err
	}
	return completions(root, filepath.Join(dir, "completions"))
}

// completions writes them under the names by which the shells find them.
func completions(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as above
		return err
	}
	name := root.Name()
	shells := map[string]func(io.Writer) error{
		name + ".bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"_" + name:     root.GenZshCompletion,
		name + ".fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
	}
	for file, generate := range shells {
		var text bytes.Buffer
		if err := generate(&text); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := write(filepath.Join(dir, file), text.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func write(path string, text []byte) error {
	return os.WriteFile(path, text, 0o644) //nolint:gosec // for everybody to read
}
