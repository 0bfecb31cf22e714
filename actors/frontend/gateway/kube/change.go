package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// mostConflicts is how often a change is made again because somebody was faster, and conflictPause the longest pause before that.
	mostConflicts = 10
	conflictPause = time.Second
)

// change changes the object at a path by a merge patch that f makes for what the object is at that moment; nil: nothing is to be changed. Changes of one object by one client wait for each other. If somebody else changes it meanwhile, f is
// asked again. If that goes on, the error is the conflict (409), also when ctx ends before the last try.
func change[T any](ctx context.Context, c *Client, path string, get func(context.Context) (T, string, error), f func(T) (map[string]any, error)) (out T, err error) {
	pause := Backoff{Most: conflictPause}
	var conflict error
	for range mostConflicts {
		out, err = changeOnce(ctx, c, path, get, f)
		switch {
		case Code(err) == http.StatusConflict:
			conflict = err
		case err != nil && ctx.Err() != nil:
			return out, errors.Join(conflict, err)
		default:
			return out, err
		}
		if cause := pause.Pause(ctx, c.clock, err); cause != nil {
			return out, errors.Join(conflict, cause)
		}
	}
	return out, &StatusError{Code: http.StatusConflict, Reason: "Conflict", Message: fmt.Sprintf("somebody else changed it %d times in a row", mostConflicts)}
}

// changeOnce tries it, when it has the turn.
func changeOnce[T any](ctx context.Context, c *Client, path string, get func(context.Context) (T, string, error), f func(T) (map[string]any, error)) (out T, err error) {
	done, err := c.turns.take(ctx, path)
	if err != nil {
		return out, err
	}
	defer done()
	out, version, err := get(ctx)
	if err != nil {
		return out, err
	}
	patch, err := f(out)
	if err != nil || patch == nil {
		return out, err
	}
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["resourceVersion"] = version
	patch["metadata"] = metadata
	var changed T
	if err := c.do(ctx, request{method: http.MethodPatch, path: path, kind: mergeType, body: patch}, maxAnswer, &changed); err != nil {
		return out, err
	}
	return changed, nil
}
