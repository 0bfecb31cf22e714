package runtimeapi

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
)

// problem is an error with what the client is told of it.
type problem struct {
	status  int // of HTTP
	message string
}

func (p *problem) Error() string { return p.message }

// fail makes a problem.
func fail(status int, format string, a ...any) *problem {
	return &problem{status, fmt.Sprintf(format, a...)}
}

// denied is the answer about a path that leads out of the folder. Clients look for these words.
func denied() *problem { return fail(http.StatusForbidden, "Access denied") }

// describe is what a client is told of an error.
func describe(err error) *problem {
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, api.ErrOutside):
		return denied()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fail(http.StatusRequestTimeout, "nothing of the request has come for %v", bodyTimeout)
	}
	return fail(frontend.HTTPStatus(err), "%s", err)
}

// answerError answers with an error.
func answerError(w http.ResponseWriter, err error) {
	p := describe(err)
	answer(w, p.status, map[string]string{"message": frontend.Told(p.message)})
}
