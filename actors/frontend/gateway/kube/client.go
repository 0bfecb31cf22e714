package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// maxAnswer bounds an answer about one object, maxList one with many.
	maxAnswer = 4 << 20
	maxList   = 256 << 20
	// requestTime bounds a request that is no watch.
	requestTime = 30 * time.Second

	jsonType  = "application/json"
	mergeType = "application/merge-patch+json"
)

// StatusError is what the API server says when it refuses.
type StatusError struct {
	Code    int // of HTTP
	Reason  string
	Message string
	// RetryAfter is how long it wants to be left alone, or 0.
	RetryAfter time.Duration
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the API server: %d %s: %s", e.Code, e.Reason, e.Message)
}

// Code is the status of a [StatusError] in err, or 0.
func Code(err error) int {
	if s := (*StatusError)(nil); errors.As(err, &s) {
		return s.Code
	}
	return 0
}

// Passing reports whether an error is one that may be gone in a while: there was no answer, or the server is busy or not well.
func Passing(err error) bool {
	code := Code(err)
	return errors.Is(err, errAway) || code == http.StatusTooManyRequests || code >= 500
}

// errAway is wrapped where there was no answer, or a part of one.
var errAway = errors.New("the API server does not answer")

// errForm is wrapped by errors about answers that cannot be read.
var errForm = errors.New("kube: the answer is not what it should be")

// request is one request.
type request struct {
	method, path string
	query        url.Values
	kind         string // of body
	body         any
}

// send sends a request. An answer that is no success is a *StatusError. The caller closes the body.
func (c *Client) send(ctx context.Context, q request) (*http.Response, error) {
	var body io.Reader
	if q.body != nil {
		b, err := json.Marshal(q.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	to := *c.base
	to.Path += q.path
	to.RawQuery = q.query.Encode()
	r, err := http.NewRequestWithContext(ctx, q.method, to.String(), body)
	if err != nil {
		return nil, err
	}
	token, err := c.token()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAway, err) // the kubelet may be about to replace it
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if q.kind != "" {
		r.Header.Set("Content-Type", q.kind)
	}
	r.Header.Set("Accept", jsonType)
	r.Header.Set("User-Agent", "sandbox-gateway")
	a, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAway, err)
	}
	if a.StatusCode >= 200 && a.StatusCode < 300 {
		return a, nil
	}
	defer a.Body.Close()
	return nil, refusal(a)
}

// refusal reads an answer that is no success.
func refusal(a *http.Response) error {
	var s struct{ Reason, Message string }
	b, err := io.ReadAll(io.LimitReader(a.Body, 64<<10))
	if err != nil || json.Unmarshal(b, &s) != nil || s.Message == "" {
		s.Message = http.StatusText(a.StatusCode)
	}
	e := &StatusError{Code: a.StatusCode, Reason: s.Reason, Message: s.Message}
	if n, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil && n > 0 && n <= 300 {
		e.RetryAfter = time.Duration(n) * time.Second
	}
	return e
}

// do sends a request and decodes the answer into out, which may be nil.
func (c *Client) do(ctx context.Context, q request, limit int64, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	a, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(io.LimitReader(a.Body, limit+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errAway, err)
	case int64(len(b)) > limit:
		return fmt.Errorf("%w: it is longer than %d bytes", errForm, limit)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%w: %w", errForm, err)
	}
	return nil
}
