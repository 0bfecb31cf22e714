package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	if len(args) < 2 || strings.Count(args[0], "/") != 1 {
		fmt.Fprintln(stderr, "usage: typecheck GOOS/GOARCH PATTERN...")
		return 2
	}
	system, arch, _ := strings.Cut(args[0], "/")
	list, err := listed(system, arch, args[1:])
	if err == nil {
		err = check(list, types.SizesFor("gc", arch))
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// pkg is a package as go list describes it.
type pkg struct {
	ImportPath, Dir, ForTest string
	DepOnly, Standard        bool
	GoFiles                  []string
	ImportMap                map[string]string
	Module                   *struct {
		Main      bool
		GoVersion string
	}
}

// ours tells whether the bodies of the package are looked at: not those of others, nor of what is compiled anew for the tests of a package.
func (p *pkg) ours() bool {
	path, _, _ := strings.Cut(p.ImportPath, " ")
	return p.Module != nil && p.Module.Main && (p.ForTest == "" || strings.TrimSuffix(path, "_test") == p.ForTest)
}

// listed lists the packages of the patterns, their tests, and what these import; each after what it imports.
func listed(system, arch string, patterns []string) (list []*pkg, err error) {
	args := append([]string{"list", "-deps", "-test", "-json=ImportPath,Dir,ForTest,DepOnly,Standard,GoFiles,ImportMap,Module", "--"}, patterns...)
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("go list: %s", exit.Stderr)
	} else if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(p.ImportPath, ".test") { // the main packages of tests, which go test writes
			list = append(list, &p)
		}
	}
}

// importer knows the packages that were checked before.
type importer struct {
	known map[string]*types.Package
	as    map[string]string // what a path of an import means in the package at hand, where that differs
}

// Import implements [types.Importer].
func (i importer) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if other, ok := i.as[path]; ok {
		path = other
	}
	if p := i.known[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not listed", path)
}

// check returns the errors of our packages. A package whose tests are in it is looked at once, with them.
func check(list []*pkg, sizes types.Sizes) error {
	files := token.NewFileSet()
	known, tested := map[string]*types.Package{}, map[string]bool{}
	for _, p := range list {
		if path, _, _ := strings.Cut(p.ImportPath, " "); path == p.ForTest {
			tested[path] = true
		}
	}
	var found []error
	for _, p := range list {
		whole := p.ours() && !tested[p.ImportPath]
		c := types.Config{Importer: importer{known, p.ImportMap}, Sizes: sizes, IgnoreFuncBodies: !whole, FakeImportC: true}
		c.Error = func(err error) {
			if whole {
				found = append(found, err)
			}
		}
		if p.Module != nil && p.Module.GoVersion != "" {
			c.GoVersion = "go" + p.Module.GoVersion
		}
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			parsed = append(parsed, f)
		}
		path, _, _ := strings.Cut(p.ImportPath, " ")
		known[p.ImportPath], _ = c.Check(path, files, parsed, nil) // the error is the first that was found
	}
	return errors.Join(found...)
}
