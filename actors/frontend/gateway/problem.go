package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

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

func notFound(id string) *problem {
	return fail(http.StatusNotFound, "the sandbox %s was not found", frontend.Short([]byte(frontend.Valid(id))))
}

// statusGone is the answer about a sandbox that does not run: the SDK takes it as its end. statusGivenUp is nobody's any more.
const (
	statusGone    = http.StatusBadGateway
	statusGivenUp = 499
)

// answerError answers with an error in E2B's form.
func answerError(w http.ResponseWriter, err error) {
	var (
		p    *problem
		long *http.MaxBytesError
	)
	switch {
	case errors.As(err, &p):
	case errors.As(err, &long):
		p = fail(http.StatusRequestEntityTooLarge, "the request has more than %d bytes", long.Limit)
	case errors.Is(err, context.Canceled):
		p = fail(statusGivenUp, "the call was given up")
	default:
		p = fail(http.StatusInternalServerError, "%s", err)
	}
	if p.status == http.StatusTooManyRequests || p.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	answer(w, p.status, map[string]any{"code": p.status, "message": frontend.Told(p.message)})
}

// answer answers with JSON.
func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"code":500,"message":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(b) // who has gone needs no answer
}

// read decodes the body of a request, which may be empty. Members that are not known are left out, as E2B's server does.
func read(r *http.Request, into any) error {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if len(b) == 0 {
		return nil
	}
	if err := frontend.CheckJSON(b); err != nil {
		return fail(http.StatusBadRequest, "the body: %s", err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fail(http.StatusBadRequest, "the body: %s", err)
	}
	return nil
}
