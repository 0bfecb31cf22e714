package stdio

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// known are the sentinel errors of the packages of which the facade's errors are
// made, with their codes.
var known = map[string]struct {
	err  error
	code Code
}{
	"messages.ErrBusy":              {messages.ErrBusy, Busy},
	"messages.ErrStopped":           {messages.ErrStopped, SessionEnded},
	"messages.ErrCrashed":           {messages.ErrCrashed, Internal},
	"messages.ErrNoDirectory":       {messages.ErrNoDirectory, UnknownDirectory},
	"messages.ErrReadOnlyDirectory": {messages.ErrReadOnlyDirectory, ReadOnlyDirectory},
	"messages.ErrDenied":            {messages.ErrDenied, Denied},
	"messages.ErrReset":             {messages.ErrReset, SessionReset},
	"messages.ErrNoMachine":         {messages.ErrNoMachine, Unavailable},
	"messages.ErrNoSafeguard":       {messages.ErrNoSafeguard, UnknownSafeguard},
	"messages.ErrDecided":           {messages.ErrDecided, AlreadyDecided},
	"actors.ErrDirectory":           {actors.ErrDirectory, InvalidWorkingDirectory},
	"actors.ErrSetting":             {actors.ErrSetting, InvalidField},
	"undolog.ErrBusy":               {undolog.ErrBusy, Busy},
	"undolog.ErrNoStep":             {undolog.ErrNoStep, NoSuchStep},
	"undolog.ErrNothing":            {undolog.ErrNothing, NothingToUndo},
	"undolog.ErrNoRedo":             {undolog.ErrNoRedo, NothingToRedo},
	"undolog.ErrUnprotected":        {undolog.ErrUnprotected, Unprotected},
	"undolog.ErrDamaged":            {undolog.ErrDamaged, Damaged},
	"undolog.ErrClosed":             {undolog.ErrClosed, SessionEnded},
	"undolog.ErrUndoDir":            {undolog.ErrUndoDir, UndoUnavailable},
	"files.ErrTooLarge":             {files.ErrTooLarge, TooLarge},
	"files.ErrEdit":                 {files.ErrEdit, EditFailed},
	"files.ErrConflict":             {files.ErrConflict, Conflict},
	"files.ErrNotRegular":           {files.ErrNotRegular, NotAFile},
	"files.ErrPattern":              {files.ErrPattern, InvalidField},
	"files.ErrRequest":              {files.ErrRequest, InvalidField},
	"files.ErrClosed":               {files.ErrClosed, SessionEnded},
	"files.ErrOutside":              {files.ErrOutside, OutsideWorkingDirectory},
	"files.ErrPath":                 {files.ErrPath, InvalidField},
	"hypervisor.ErrUnavailable":     {hypervisor.ErrUnavailable, Unavailable},
	"hypervisor.ErrNetwork":         {hypervisor.ErrNetwork, Unsupported},
}

// Every sentinel error has a stable code: one that is added to these packages
// has to be given one.
func TestSentinelsHaveCodes(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	found := map[string]bool{}
	for _, dir := range []string{"messages", "actors", "fsbridge/undolog", "fsbridge/files", "hypervisor"} {
		for _, name := range sentinelsIn(t, filepath.Join(root, dir)) {
			found[name] = true
			k, ok := known[name]
			if !ok {
				t.Errorf("%s has no code: add it to sentinels in errors.go, and here", name)
				continue
			}
			if e := toError(fmt.Errorf("about something: %w", k.err)); e.Code != k.code {
				t.Errorf("%s: %s, want %s", name, e.Code, k.code)
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

// Numbers and words are unique, and the thousands of a number are its category.
func TestCodesAreSound(t *testing.T) {
	numbers, words, category := map[int]bool{}, map[Code]bool{}, map[int]string{}
	for _, c := range Codes() {
		if numbers[c.Number] || words[c.Code] {
			t.Errorf("%+v is there twice", c)
		}
		numbers[c.Number], words[c.Code] = true, true
		if have := category[c.Number/1000]; have != "" && have != c.Category || c.Category == "" || c.Meaning == "" {
			t.Errorf("%+v, but %d is %s", c, c.Number/1000, have)
		}
		category[c.Number/1000] = c.Category
	}
	for _, s := range sentinels {
		if !words[s.code] {
			t.Errorf("%v has the code %s, which is not listed", s.err, s.code)
		}
	}
	for err, code := range map[error]Code{
		&undolog.BarrierError{}: Barrier, &messages.DecidedError{}: AlreadyDecided, &undolog.VersionError{}: UndoVersionMismatch,
		&undolog.LockedError{}: SessionLocked, &hypervisor.StartError{Err: fs.ErrNotExist}: CommandNotFound,
		fs.ErrNotExist: NotFound, fs.ErrExist: AlreadyExists, fs.ErrPermission: PermissionDenied, errors.ErrUnsupported: Unsupported,
	} {
		if e := toError(fmt.Errorf("about something: %w", err)); e.Code != code || e.Number == 0 || e.Category == "" {
			t.Errorf("%T: %+v, want %s", err, e, code)
		}
	}
}
