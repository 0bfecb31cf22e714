package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
)

func notFound(id string) *wire.Problem {
	return wire.Fail(http.StatusNotFound, "the sandbox %s was not found", frontend.Short([]byte(frontend.Valid(id))))
}

// answerError answers with an error in E2B's form.
func answerError(w http.ResponseWriter, err error) {
	var (
		p    *wire.Problem
		long *http.MaxBytesError
	)
	switch {
	case errors.As(err, &p):
	case errors.As(err, &long):
		p = wire.Fail(http.StatusRequestEntityTooLarge, "the request has more than %d bytes", long.Limit)
	case errors.Is(err, context.Canceled):
		p = wire.Fail(wire.StatusGivenUp, "the call was given up")
	default:
		p = wire.Fail(http.StatusInternalServerError, "%s", err)
	}
	p.Answer(w)
}
