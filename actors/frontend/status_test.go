package frontend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// TestHTTPStatus: no error that frontends know is an accident of ours, but for two; and those that are not in the table have a status, too.
func TestHTTPStatus(t *testing.T) {
	for _, f := range Failures() {
		status := HTTPStatus(fmt.Errorf("about something: %w", f.Err))
		if accident := f.Code == "internal" || f.Code == "damaged"; (status == http.StatusInternalServerError) != accident {
			t.Errorf("%s, %s: %d", f.Name, f.Code, status)
		}
	}
	for want, errs := range map[int][]error{
		400: {&fs.PathError{Err: syscall.ENAMETOOLONG}, &api.FieldError{Field: "name", Problem: "is missing"}}, 403: {&fs.PathError{Err: syscall.EROFS}}, 404: {&fs.PathError{Err: syscall.ENOENT}},
		409: {&undolog.BarrierError{}}, 413: {&http.MaxBytesError{Limit: 1}}, StatusGivenUp: {context.Canceled}, 500: {errors.New("something")}, 503: {messages.ErrStopped},
		504: {context.DeadlineExceeded}, 507: {syscall.ENOSPC},
	} {
		for _, err := range errs {
			if got := HTTPStatus(fmt.Errorf("about something: %w", err)); got != want {
				t.Errorf("%v: %d, want %d", err, got, want)
			}
			ours := http.StatusInternalServerError
			if want == 507 || want == StatusGivenUp || want == 504 {
				ours = want
			}
			if got := HTTPStatus(fmt.Errorf("about a file of ours: %w", Ours(err))); got != ours {
				t.Errorf("%v, of ours: %d, want %d", err, got, ours)
			}
		}
	}
}
