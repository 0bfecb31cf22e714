package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/gateway/kube"
)

// A sandbox's end is its claim's shutdownTime: with that the claim is deleted, and all that belongs to it. One that pauses by itself has its end in its Sandbox instead, whose policy is Retain: the controller gives up the pod then, and keeps the
// Sandbox and its volumes. A claim with that policy would not do: it keeps nothing but itself.

// autoPauses tells whether a sandbox is paused at its end.
func autoPauses(c kube.Claim) bool { return c.Metadata.Annotations[autoPauseNote] != "" }

// overslept tells whether that has come.
func overslept(c kube.Claim) bool {
	ready, why := c.Ready()
	return autoPauses(c) && !ready && why.Reason == kube.ReasonExpired
}

// pauseWanted tells whether somebody has paused it.
func pauseWanted(c kube.Claim) bool { return c.Metadata.Annotations[pausedNote] == "true" }

func paused(c kube.Claim) bool { return pauseWanted(c) || overslept(c) }

// suspended tells whether agent-sandbox says of a sandbox that it is to have no pod.
func suspended(c kube.Claim) bool {
	ready, why := c.Ready()
	return !ready && why.Reason == reasonSuspended
}

// unpaused is the patch of a claim whose sandbox is to run until then.
func unpaused(c kube.Claim, until time.Time) map[string]any {
	return note(ends(c, until), pausedNote, nil)
}

// endOf is when a sandbox's time ends; zero: never.
func endOf(c kube.Claim) time.Time {
	if autoPauses(c) && !paused(c) {
		at, err := time.Parse(time.RFC3339, c.Metadata.Annotations[autoPauseNote])
		if err == nil {
			return at
		}
	}
	return c.Expires()
}

// stamp is a time as objects of the cluster have it; zero: none.
func stamp(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.UTC().Truncate(time.Second).Format(time.RFC3339)
}

// ends is the patch of a claim that says when its sandbox's time ends; zero: never. The end of one that pauses by itself is a note here, and its Sandbox has to be told ([Gateway.tell]).
func ends(c kube.Claim, at time.Time) map[string]any {
	if autoPauses(c) {
		if at.IsZero() {
			return map[string]any{}
		}
		return note(map[string]any{}, autoPauseNote, stamp(at))
	}
	return expires(at)
}

// expires is the patch that says when a claim ends; zero: never.
func expires(at time.Time) map[string]any {
	return map[string]any{"spec": map[string]any{"lifecycle": map[string]any{"shutdownTime": stamp(at)}}}
}

// note adds an annotation to a patch, or takes it off.
func note(patch map[string]any, name string, value any) map[string]any {
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{"annotations": map[string]any{}}
		patch["metadata"] = metadata
	}
	metadata["annotations"].(map[string]any)[name] = value
	return patch
}

// handOver has the Sandbox of a claim that pauses by itself end in its place.
func (g *Gateway) handOver(ctx context.Context, c kube.Claim) (kube.Claim, error) {
	if err := g.prolong(ctx, c, endOf(c)); err != nil {
		return c, err
	}
	return g.change(ctx, c.Metadata.Namespace, c.Metadata.Name, func(kube.Claim) (map[string]any, error) { return expires(time.Time{}), nil })
}

// setTimeout says how long a sandbox lives from now on.
func (g *Gateway) setTimeout(q call) error {
	var m struct {
		Timeout *int64 `json:"timeout"`
	}
	if err := wire.Read(q.r, &m); err != nil {
		return err
	}
	if m.Timeout == nil {
		return wire.Fail(http.StatusBadRequest, "timeout: it is missing")
	}
	life, err := wire.Timeout(m.Timeout)
	if err != nil {
		return err
	}
	until := g.o.Clock.Now().Add(life)
	c, err := g.change(q.ctx, q.namespace, q.id, func(c kube.Claim) (map[string]any, error) {
		if paused(c) {
			return nil, wire.Fail(http.StatusConflict, "the sandbox is paused: connect to it first")
		}
		return ends(c, until), nil
	})
	if err == nil && autoPauses(c) {
		err = g.prolong(q.ctx, c, until)
	}
	if err != nil {
		return err
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// pause gives a sandbox's pod up, and keeps its volumes. It has no end then. Where an earlier pause has got half of the way, this one goes on. To clients 409 means that it is paused already, and nothing else: what else stands in the way is 503.
func (g *Gateway) pause(q call) error {
	end, err := g.begin()
	if err != nil {
		return err
	}
	defer end()
	already := wire.Fail(http.StatusConflict, "the sandbox is paused already")
	c, err := g.change(q.ctx, q.namespace, q.id, func(c kube.Claim) (map[string]any, error) {
		switch {
		case paused(c) && (overslept(c) || suspended(c)):
			return nil, already
		case paused(c):
			return nil, nil
		case c.Status.Sandbox.Name == "":
			return nil, notStarted()
		}
		return note(ends(c, time.Time{}), pausedNote, "true"), nil
	})
	if err == nil {
		ctx, cancel := kube.Within(q.ctx, g.o.Clock, g.o.Ready)
		defer cancel()
		err = g.suspend(ctx, c)
	}
	if p := (*wire.Problem)(nil); errors.As(err, &p) && p.Status == http.StatusConflict && p != already {
		return wire.Fail(http.StatusServiceUnavailable, "%s", p.Message)
	}
	if err != nil {
		return err
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// connect starts a paused sandbox again, and lets one live longer.
func (g *Gateway) connect(q call) error {
	var m struct {
		Timeout *int64 `json:"timeout"`
	}
	if err := wire.Read(q.r, &m); err != nil {
		return err
	}
	life, err := wire.Timeout(m.Timeout)
	if err != nil {
		return err
	}
	end, err := g.begin()
	if err != nil {
		return err
	}
	defer end()
	was, until := false, time.Time{}
	c, err := g.change(q.ctx, q.namespace, q.id, func(c kube.Claim) (map[string]any, error) {
		was, until = paused(c), g.o.Clock.Now().Add(life)
		if before := endOf(c); !was && before.After(until) {
			until = before // nobody who connects shortens it
		}
		return unpaused(c, until), nil
	})
	if err != nil {
		return err
	}
	if c, err = g.running(q.ctx, c, was, until); err != nil {
		return err
	}
	status := http.StatusOK
	if was {
		status = http.StatusCreated
	}
	wire.Answer(q.w, status, g.object(c))
	return nil
}

// running has a sandbox run that may be paused: was says that it was, and c is its claim as it was told to run.
func (g *Gateway) running(ctx context.Context, c kube.Claim, was bool, until time.Time) (kube.Claim, error) {
	ctx, cancel := kube.Within(ctx, g.o.Clock, g.o.Ready)
	defer cancel()
	if ready, _ := c.Ready(); was || !ready || autoPauses(c) { // an earlier connect may have got half of the way
		if err := g.wake(ctx, c, until); err != nil {
			return c, err
		}
	}
	return g.started(ctx, c, nil) // its variables the pod has kept
}

// resumes tells whether a sandbox that has no pod, because it is paused or about to run again, runs when it is used.
func resumes(c kube.Claim) bool {
	return c.Metadata.Annotations[autoResumeNote] == "true" && (paused(c) || suspended(c))
}

// resume has a sandbox run that is used. All who come meanwhile wait for it.
func (g *Gateway) resume(ctx context.Context, c kube.Claim) (kube.Claim, error) {
	end, err := g.begin()
	if err != nil {
		return c, err
	}
	defer end()
	was, until := false, time.Time{}
	c, err = g.change(ctx, c.Metadata.Namespace, c.Metadata.Name, func(c kube.Claim) (map[string]any, error) {
		if was, until = paused(c), endOf(c); !was {
			return nil, nil
		}
		until = g.o.Clock.Now().Add(wire.DefaultTimeout)
		return unpaused(c, until), nil
	})
	if err != nil {
		return c, err
	}
	return g.running(ctx, c, was, until)
}
