package stdio

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

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
	for _, f := range frontend.Failures() {
		if !words[Code(f.Code)] {
			t.Errorf("%v has the code %s, which is not listed", f.Err, f.Code)
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

// TestErrorsAreBounded: what a client has named comes back in an error, but not all of it, and not as it acts on a terminal. A line break stays.
func TestErrorsAreBounded(t *testing.T) {
	var got Error
	sent := &Error{Code: NotFound, Message: "no service \x1b[2J" + strings.Repeat("x", 1<<16) + "\nend"}
	if err := json.Unmarshal(encodeError(sent), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Message) > 1<<13 || !strings.HasPrefix(got.Message, "no service <001B>[2Jxx") || !strings.HasSuffix(got.Message, "xx\nend") {
		t.Errorf("%d bytes: %.100q", len(got.Message), got.Message)
	}
}
