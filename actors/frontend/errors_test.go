package frontend

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// known are the sentinel errors of the packages of which the facade's errors are
// made, with their codes.
var known = map[string]struct {
	err  error
	code string
}{
	"messages.ErrBusy":              {messages.ErrBusy, "busy"},
	"messages.ErrStopped":           {messages.ErrStopped, "session_ended"},
	"messages.ErrCrashed":           {messages.ErrCrashed, "internal"},
	"messages.ErrNoDirectory":       {messages.ErrNoDirectory, "unknown_directory"},
	"messages.ErrReadOnlyDirectory": {messages.ErrReadOnlyDirectory, "read_only_directory"},
	"messages.ErrNotRolledBack":     {messages.ErrNotRolledBack, "internal"},
	"messages.ErrDenied":            {messages.ErrDenied, "denied"},
	"messages.ErrReset":             {messages.ErrReset, "session_reset"},
	"messages.ErrKilled":            {messages.ErrKilled, "cancelled"},
	"messages.ErrNoMachine":         {messages.ErrNoMachine, "unavailable"},
	"messages.ErrNoSafeguard":       {messages.ErrNoSafeguard, "unknown_safeguard"},
	"messages.ErrDecided":           {messages.ErrDecided, "already_decided"},
	"api.ErrDirectory":              {api.ErrDirectory, "invalid_working_directory"},
	"api.ErrService":                {api.ErrService, "invalid_field"},
	"api.ErrCommand":                {api.ErrCommand, "invalid_field"},
	"api.ErrStands":                 {api.ErrStands, "conflict"},
	"api.ErrSetting":                {api.ErrSetting, "invalid_field"},
	"format.ErrBusy":                {undolog.ErrBusy, "busy"},
	"format.ErrNoStep":              {undolog.ErrNoStep, "no_such_step"},
	"format.ErrNothing":             {undolog.ErrNothing, "nothing_to_undo"},
	"messages.ErrEnding":            {messages.ErrEnding, "session_ended"},
	"api.ErrNotGiven":               {api.ErrNotGiven, "unsupported"},
	"format.ErrMark":                {undolog.ErrMark, "conflict"},
	"format.ErrNoRedo":              {undolog.ErrNoRedo, "nothing_to_redo"},
	"format.ErrGroup":               {undolog.ErrGroup, "conflict"},
	"format.ErrUnprotected":         {undolog.ErrUnprotected, "unprotected"},
	"format.ErrDamaged":             {undolog.ErrDamaged, "damaged"},
	"format.ErrEdited":              {undolog.ErrEdited, "conflict"},
	"format.ErrElsewhere":           {undolog.ErrElsewhere, "conflict"},
	"format.ErrClosed":              {undolog.ErrClosed, "session_ended"},
	"format.ErrUndoDir":             {undolog.ErrUndoDir, "undo_unavailable"},
	"files.ErrTooLarge":             {files.ErrTooLarge, "too_large"},
	"files.ErrEdit":                 {files.ErrEdit, "edit_failed"},
	"files.ErrConflict":             {files.ErrConflict, "conflict"},
	"files.ErrNotRegular":           {files.ErrNotRegular, "not_a_file"},
	"files.ErrPattern":              {files.ErrPattern, "invalid_field"},
	"files.ErrRequest":              {files.ErrRequest, "invalid_field"},
	"files.ErrClosed":               {files.ErrClosed, "session_ended"},
	"files.ErrOutside":              {files.ErrOutside, "outside_working_directory"},
	"files.ErrPath":                 {files.ErrPath, "invalid_field"},
	"hypervisor.ErrUnavailable":     {hypervisor.ErrUnavailable, "unavailable"},
	"hypervisor.ErrNetwork":         {hypervisor.ErrNetwork, "unsupported"},
}

// Every sentinel error has a stable code: one that is added to these packages
// has to be given one.
func TestSentinelsHaveCodes(t *testing.T) {
	root := filepath.Join("..", "..")
	found := map[string]bool{}
	for _, dir := range []string{"messages", "actors", "actors/api", "fsbridge/undolog", "fsbridge/undolog/internal/format", "fsbridge/files", "hypervisor"} {
		for _, name := range sentinelsIn(t, filepath.Join(root, dir)) {
			if name == "format.ErrMalformed" { // of a record: who reads one says that the log is damaged
				continue
			}
			found[name] = true
			k, ok := known[name]
			if !ok {
				t.Errorf("%s has no code: add it to failures in errors.go, and here", name)
				continue
			}
			if f, _ := FailureOf(fmt.Errorf("about something: %w", k.err)); f.Code != k.code {
				t.Errorf("%s: %s, want %s", name, f.Code, k.code)
			}
		}
	}
	for name := range known {
		if !found[name] {
			t.Errorf("there is no %s any more", name)
		}
	}
}

// sentinelsIn lists the errors that a package declares by errors.New.
func sentinelsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no sources: %v", dir, err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				for i, name := range v.Names {
					if i < len(v.Values) && name.IsExported() && isErrorsNew(v.Values[i]) {
						names = append(names, file.Name.Name+"."+name.Name)
					}
				}
			}
		}
	}
	return names
}

func isErrorsNew(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := f.X.(*ast.Ident)
	return ok && pkg.Name == "errors" && f.Sel.Name == "New"
}

// Names are unique, for by them an error is found again, and everybody who can
// react to an error is told how.
func TestFailuresAreSound(t *testing.T) {
	names := map[string]bool{}
	for _, f := range Failures() {
		if f.Name == "" || f.Code == "" || names[f.Name] {
			t.Errorf("%v: %+v", f.Err, f)
		}
		names[f.Name] = true
		if g, ok := FailureNamed(f.Name); !ok || g.Err != f.Err {
			t.Errorf("%s: %v", f.Name, g)
		}
		if f.Advice == "" && f.Name != "cancelled" {
			t.Errorf("%v: no advice", f.Err)
		}
	}
}
