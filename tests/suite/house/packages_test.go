package house

import (
	"bytes"
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/codeagent/sandbox"

// pack is a package as it stands in the tree.
type pack struct {
	path       string         // below the module
	imports    []string       // of ours, on any platform, without tests
	lines      map[string]int // of each file, without tests
	documented bool           // in doc.go
	says       string         // what it is, in its first sentence
}

// platforms are those whose imports count.
var platforms = []build.Context{
	{GOOS: "linux", GOARCH: "amd64"},
	{GOOS: "linux", GOARCH: "amd64", BuildTags: []string{"faults"}},
	{GOOS: "darwin", GOARCH: "arm64"},
	{GOOS: "windows", GOARCH: "amd64"},
}

// readPackages reads every package below the root that has a Go file. Those of
// tests alone have no imports.
func readPackages(root string) (all []pack, err error) {
	err = filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if dir != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		p, err := readPackage(root, dir)
		if err == nil && p != nil {
			all = append(all, *p)
		}
		return err
	})
	return all, err
}

func readPackage(root, dir string) (*pack, error) {
	sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(sources) == 0 {
		return nil, err
	}
	name, err := filepath.Rel(root, dir)
	if err != nil {
		return nil, err
	}
	p := &pack{path: filepath.ToSlash(name), lines: map[string]int{}}
	for _, file := range sources {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		p.lines[filepath.Base(file)] = bytes.Count(text, []byte("\n"))
	}
	for _, c := range platforms {
		c.Compiler = "gc"
		found, err := c.ImportDir(dir, build.ImportComment)
		if none := (*build.NoGoError)(nil); errors.As(err, &none) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s for %s: %w", p.path, c.GOOS, err)
		}
		if says, ok := strings.CutPrefix(found.Doc, "Package "+found.Name+" "); ok && p.says == "" {
			p.says = strings.TrimSuffix(says, ".")
		}
		p.documented = p.documented || found.Doc != "" && slices.Contains(found.GoFiles, "doc.go")
		for _, i := range found.Imports {
			if i == module {
				i += "/."
			}
			if ours, ok := strings.CutPrefix(i, module+"/"); ok {
				p.imports = append(p.imports, path.Clean(ours))
			}
		}
	}
	slices.Sort(p.imports)
	p.imports = slices.Compact(p.imports)
	return p, nil
}
