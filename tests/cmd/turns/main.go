package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// list is the file with the packages that run twice, and with the tests of those that do not.
const list = "tests/user-pass.txt"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "turns:", err)
		os.Exit(2)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("turns", flag.ContinueOnError)
	root := flags.Bool("root", false, "print what root's pass leaves to the user's")
	sample := flags.String("sample", "all", "the `number` by which a half is drawn, or all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	alone := roots(string(text))
	var left []string
	if *sample != "all" {
		n, err := strconv.Atoi(*sample)
		if err != nil || n < 0 {
			return fmt.Errorf("-sample %q: want a number, or all", *sample)
		}
		tests, err := inTurn(flags.Args())
		if err != nil {
			return err
		}
		tests = slices.DeleteFunc(tests, func(name string) bool { return slices.Contains(alone, name) })
		left = half(tests, n, *root)
	}
	if !*root {
		left = append(left, alone...)
	}
	_, err = fmt.Fprintln(out, pattern(left))
	return err
}

// roots are the tests that run as root alone: the lines with a tilde.
func roots(text string) (names []string) {
	for line := range strings.Lines(text) {
		if words, ok := strings.CutPrefix(line, "~"); ok {
			if fields := strings.Fields(words); len(fields) > 1 {
				names = append(names, fields[1])
			}
		}
	}
	return names
}

// half is what one of two passes leaves out. It goes by the name alone: the passes do not ask for the same directories, and what root's leaves out the user's must have.
func half(tests []string, sample int, root bool) (left []string) {
	for _, name := range tests {
		if ((int(crc32.ChecksumIEEE([]byte(name))%2)+sample)%2 == 0) == root {
			left = append(left, name)
		}
	}
	return left
}

// pattern is what go test -skip takes.
func pattern(names []string) string {
	var parts []string
	for _, name := range names {
		parts = append(parts, "^"+strings.ReplaceAll(name, "/", "$/^")+"$")
	}
	return strings.Join(parts, "|")
}

// inTurn are the names of the tests in these directories of which one pass is enough. A name that a test of another directory has that
// asks who runs it is not among them, because go test has one pattern for all.
func inTurn(dirs []string) ([]string, error) {
	names, asking := map[string]bool{}, map[string]bool{}
	askers, err := kit()
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		functions, err := read(filepath.Join(dir, "*_test.go"), askers)
		if err != nil {
			return nil, err
		}
		for name, f := range functions {
			if !strings.HasPrefix(name, "Test") || name == "TestMain" {
				continue
			}
			names[name] = true
			if f.looks || requires(functions, name, map[string]bool{}) {
				asking[name] = true
			}
		}
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool { return asking[name] })
	return slices.Sorted(maps.Keys(names)), nil
}

// function is what is known of a function of a test.
type function struct {
	requires bool            // a certain user, or a turn
	looks    bool            // at its user
	uses     map[string]bool // names, those of functions among them
}

// kit are the functions of the packages below tests/kit that require a certain user, or a turn, as "package.Function".
func kit() (map[string]bool, error) {
	askers := map[string]bool{}
	for _, name := range []string{"Ordinary", "AsUser", "Root", "KVM", "Turn"} {
		askers["require."+name] = true
	}
	dirs, err := filepath.Glob("tests/kit/*")
	if err != nil {
		return nil, err
	}
	for _, of := range []string{"require", "*"} { // the others use that
		for _, dir := range dirs {
			name := filepath.Base(dir)
			if ok, _ := filepath.Match(of, name); !ok {
				continue
			}
			functions, err := read(filepath.Join(dir, "*.go"), askers)
			if err != nil {
				return nil, err
			}
			for f := range functions {
				if requires(functions, f, map[string]bool{}) {
					askers[name+"."+f] = true
				}
			}
		}
	}
	return askers, nil
}

// read reads the functions in files of one package. Methods of one name are taken for one.
func read(pattern string, askers map[string]bool) (map[string]function, error) {
	files, err := filepath.Glob(pattern)
	if err == nil && len(files) == 0 {
		err = errors.New("no files are " + pattern)
	}
	if err != nil {
		return nil, err
	}
	functions := map[string]function{}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range tree.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				f := describe(d.Body, askers)
				f.requires = f.requires || askers[tree.Name.Name+"."+d.Name.Name]
				if had, ok := functions[d.Name.Name]; ok {
					f.requires, f.looks = f.requires || had.requires, f.looks || had.looks
					maps.Copy(f.uses, had.uses)
				}
				functions[d.Name.Name] = f
			}
		}
	}
	return functions, nil
}

func describe(body *ast.BlockStmt, askers map[string]bool) function {
	f := function{uses: map[string]bool{}}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			f.uses[n.Name] = true
		case *ast.SelectorExpr:
			from, _ := n.X.(*ast.Ident)
			switch name := n.Sel.Name; {
			case from == nil:
			case askers[from.Name+"."+name]:
				f.requires = true
			case from.Name == "os", from.Name == "unix", from.Name == "syscall":
				f.looks = f.looks || slices.Contains([]string{"Getuid", "Geteuid", "Getgid", "Getegid"}, name)
			}
		}
		return true
	})
	return f
}

// requires tells whether a function, or one that it uses, requires a user or a turn.
func requires(functions map[string]function, name string, seen map[string]bool) bool {
	f, ok := functions[name]
	if !ok || seen[name] {
		return false
	}
	seen[name] = true
	if f.requires {
		return true
	}
	for used := range f.uses {
		if requires(functions, used, seen) {
			return true
		}
	}
	return false
}
