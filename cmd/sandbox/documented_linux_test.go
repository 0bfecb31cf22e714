package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

// mention is a command line that a text tells people to type, and where it stands.
type mention struct{ where, line string }

var (
	fenced   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	span     = regexp.MustCompile("`([^`\n]+)`")
	typed    = regexp.MustCompile(`^\s*(?:\$ )?(?:sudo )?(?:[A-Z_]+=\S+ +)*(?:bin/)?(sandbox [a-z-].*)`)
	quoted   = regexp.MustCompile(`'(sandbox [a-z-][^'%]*)'`)
	flagWord = regexp.MustCompile(`--[a-z0-9][a-z0-9-]*[a-z0-9]\b`)
	// shapes are what a description has around its words.
	shapes = strings.NewReplacer("[", " ", "]", " ", "(", " ", ")", " ", "...", " ", "…", " ", ",", " ")
)

// documents are the names of the module's documents for users.
func documents(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(drive.Module(t), "docs", "*.md"))
	if err != nil || len(names) < 15 {
		t.Fatalf("%d documents, %v", len(names), err)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "ARCHITECTURE.md", "packaging/README.md"} {
		names = append(names, filepath.Join(drive.Module(t), name))
	}
	return names
}

// inDocument finds the command lines in the code of a document.
func inDocument(t *testing.T, path string) (found []mention) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, where := string(b), filepath.Base(path)
	for _, block := range fenced.FindAllString(text, -1) {
		for line := range strings.Lines(block) {
			if m := typed.FindStringSubmatch(line); m != nil {
				line, _, _ = strings.Cut(m[1], " # ")
				found = append(found, mention{where, line})
			}
		}
	}
	for _, m := range span.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		if strings.HasPrefix(m[1], "sandbox ") && !strings.Contains(m[1], "{") {
			found = append(found, mention{where, strings.ReplaceAll(m[1], `\|`, "|")})
		}
	}
	return found
}

// inTable finds the commands that the first table of "Commands" in docs/cli.md describes.
func inTable(t *testing.T) (found []mention) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(drive.Module(t), "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "\n## Commands\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		cell, _, ok := strings.Cut(strings.TrimPrefix(strings.ReplaceAll(line, `\|`, "\x00"), "|"), "|")
		if !ok || !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, m := range span.FindAllStringSubmatch(cell, -1) {
			if words := strings.ReplaceAll(m[1], "\x00", "|"); !strings.HasPrefix(words, "-") {
				found = append(found, mention{"the table of docs/cli.md", "sandbox " + words})
			}
		}
	}
	return found
}

// inMessages finds the command lines that the program's own messages name, in quotes.
func inMessages(t *testing.T) (found []mention) {
	t.Helper()
	for _, dir := range []string{"cmd", "actors", "fsbridge", "hypervisor", "guest"} {
		err := filepath.WalkDir(filepath.Join(drive.Module(t), dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					return true
				}
				for _, m := range quoted.FindAllStringSubmatch(text, -1) {
					found = append(found, mention{filepath.Base(path), m[1]})
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// TestDocumentedCommands: each command line in a document, and in a message of the program, names a
// command that is there, with flags that it has.
func TestDocumentedCommands(t *testing.T) {
	var all []mention
	for _, path := range documents(t) {
		all = append(all, inDocument(t, path)...)
	}
	documented := len(all)
	table := inTable(t)
	messages := inMessages(t)
	if documented < 150 || len(table) < 50 || len(messages) < 20 {
		t.Errorf("found only %d command lines in documents, %d in the table, %d in messages", documented, len(table), len(messages))
	}
	described := map[string]bool{}
	for i, m := range slices.Concat(table, all, messages) {
		cmd, wrong := understand(m.line)
		if wrong != "" {
			t.Errorf("%s: %q: %s", m.where, m.line, wrong)
		}
		if i < len(table) {
			for ; cmd != nil; cmd = cmd.Parent() {
				described[cmd.CommandPath()] = true
			}
		}
	}
	for cmd := range commands((&app{}).rootCommand()) {
		if !cmd.Hidden && cmd.Name() != "help" && !strings.HasPrefix(cmd.CommandPath(), "sandbox completion ") && !described[cmd.CommandPath()] {
			t.Errorf("the table of docs/cli.md does not have %q", cmd.CommandPath())
		}
	}
}

// commands are a command and those below it.
func commands(cmd *cobra.Command) func(yield func(*cobra.Command) bool) {
	return func(yield func(*cobra.Command) bool) {
		if !yield(cmd) {
			return
		}
		for _, below := range cmd.Commands() {
			for c := range commands(below) {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// understand says which command a line means, and what is wrong with it: "" is nothing.
func understand(line string) (*cobra.Command, string) {
	line, _, _ = strings.Cut(shapes.Replace(line)+" ", " -- ")
	cmd, skip := (&app{}).rootCommand(), false
	cmd.InitDefaultHelpCmd()
	named := false // whether the words of the command are at an end
	for _, word := range strings.Fields(line)[1:] {
		switch {
		case skip:
			skip = false
		case strings.HasPrefix(word, "-"):
			named = named || cmd.HasParent()
			for _, one := range strings.Split(word, "|") { // --a|--b
				f := flagOf(cmd, one)
				if f == nil {
					return cmd, cmd.CommandPath() + " has no flag " + one
				}
				skip = f.NoOptDefVal == "" && !strings.Contains(one, "=")
			}
		case !named:
			if below := child(cmd, word); below != nil {
				cmd = below
				continue
			}
			if !cmd.HasParent() || cmd.HasAvailableSubCommands() && cmd.RunE == nil && !strings.Contains(word, "|") && word == strings.ToLower(word) {
				return nil, strconv.Quote(word) + " is no command of " + cmd.CommandPath()
			}
			named = true
		}
	}
	return cmd, ""
}

func child(cmd *cobra.Command, word string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == word || c.HasAlias(word) {
			return c
		}
	}
	return nil
}

// flagOf is a command's flag, or nil. Every command has --help.
func flagOf(cmd *cobra.Command, word string) *pflag.Flag {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.InheritedFlags()} {
		if !strings.HasPrefix(word, "--") && len(name) == 1 {
			if f := set.ShorthandLookup(name); f != nil {
				return f
			}
		} else if f := set.Lookup(name); f != nil {
			return f
		}
	}
	return nil
}

// TestDocumentedFlags: the documents name each flag of the program, and no flag that nothing has.
func TestDocumentedFlags(t *testing.T) {
	has := map[string]bool{} // whether a flag has no other name of one letter
	for cmd := range commands((&app{}).rootCommand()) {
		cmd.InitDefaultHelpFlag()
		cmd.InitDefaultVersionFlag()
		for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) {
				if !f.Hidden && !cmd.Hidden {
					has["--"+f.Name] = f.Shorthand == ""
				}
			})
		}
	}
	for _, o := range aliases() { // help does not list them
		has["--"+o.name] = true
	}
	named := map[string]bool{}
	for _, path := range documents(t) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range span.FindAllStringSubmatch(fenced.ReplaceAllString(string(b), ""), -1) {
			for _, f := range flagWord.FindAllString(m[1], -1) {
				named[f] = true
				if _, ok := has[f]; !ok && strings.HasPrefix(m[1], "--") {
					t.Errorf("%s: `%s`: no command has %s", filepath.Base(path), m[1], f)
				}
			}
		}
	}
	for f, alone := range has {
		if alone && !named[f] && f != "--help" && f != "--no-descriptions" {
			t.Errorf("no document names %s", f)
		}
	}
}
