package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// costly are the calls that each start of the program would pay for, also where what they make is never used.
var costly = []string{"regexp.MustCompile", "regexp.MustCompilePOSIX", "template.Must", "jsonschema.For", "json.Marshal"}

// TestNothingIsMadeBeforeMain keeps work out of the initialisation of packages. What is made when it is first
// wanted (sync.OnceValue) is allowed.
func TestNothingIsMadeBeforeMain(t *testing.T) {
	files := 0
	for _, top := range []string{"actors", "cmd", "fsbridge", "guest", "hypervisor", "messages", "supervision"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			for _, complaint := range early(t, path, nil) {
				t.Error(complaint)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 500 {
		t.Fatalf("read only %d files", files)
	}
}

func TestEarlyWorkIsSeen(t *testing.T) {
	for source, want := range map[string]int{
		"var a = regexp.MustCompile(`x`)":                                                       1,
		"var (\n a = 1\n b = struct{ r any }{regexp.MustCompile(`x`)}\n)":                       1,
		"func init() { a = 1 }":                                                                 1,
		"var a = sync.OnceValue(func() any { return regexp.MustCompile(`x`) })":                 0,
		"func f() any { return regexp.MustCompile(`x`) }\nfunc (t T) init() {}\nvar a = g(`x`)": 0,
	} {
		if got := early(t, "f.go", []byte("package p\n"+source)); len(got) != want {
			t.Errorf("%s: %q", source, got)
		}
	}
}

// early returns what a file has made before main begins. Without a source it reads the file.
func early(t *testing.T, path string, source []byte) (complaints []string) {
	t.Helper()
	set := token.NewFileSet()
	var from any
	if source != nil {
		from = source
	}
	file, err := parser.ParseFile(set, path, from, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				complaints = append(complaints, fmt.Sprintf("%s: a function init: do it where the program composes, or when it is first wanted", set.Position(d.Pos())))
			}
		case *ast.GenDecl:
			ast.Inspect(d, func(n ast.Node) bool {
				if _, later := n.(*ast.FuncLit); later {
					return false
				}
				if call, ok := n.(*ast.CallExpr); ok && slices.Contains(costly, called(call)) {
					complaints = append(complaints, fmt.Sprintf("%s: %s when the package is initialised: wrap it in sync.OnceValue", set.Position(call.Pos()), called(call)))
				}
				return true
			})
		}
	}
	return complaints
}

// called names a function of another package that is called: "regexp.MustCompile".
func called(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		if p, ok := s.X.(*ast.Ident); ok {
			return p.Name + "." + s.Sel.Name
		}
	}
	return ""
}
