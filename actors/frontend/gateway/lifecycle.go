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

// reasonExpired is what a claim says of a Sandbox that has had its end.
const reasonExpired = "SandboxExpired"

// autoPauses tells whether a sandbox is paused at its end.
func autoPauses(c kube.Claim) bool { return c.Metadata.Annotations[autoPauseNote] != "" }

// overslept tells whether that has come.
func overslept(c kube.Claim) bool {
	ready, why := c.Ready()
	return autoPauses(c) && !ready && why.Reason == reasonExpired
}

func paused(c kube.Claim) bool { return c.Metadata.Annotations[pausedNote] == "true" || overslept(c) }

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

// ends is the patch of a claim that says when its sandbox's time ends; zero: never. The end of one that pauses by itself is a note here, and its Sandbox has to be told ([Gateway.setSandbox]).
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

// setSandbox tells a claim's Sandbox whether to have a pod, and, if it pauses by itself, until when.
func (g *Gateway) setSandbox(ctx context.Context, c kube.Claim, mode string, until time.Time) error {
	if c.Status.Sandbox.Name == "" {
		return wire.Fail(http.StatusConflict, "the sandbox has not started yet: try again")
	}
	spec := map[string]any{"operatingMode": mode}
	if autoPauses(c) {
		spec["shutdownTime"], spec["shutdownPolicy"] = stamp(until), "Retain"
	}
	ctx, cancel := kube.Within(ctx, g.o.Clock, changeTime)
	defer cancel()
	err := g.o.Kube.Retry(ctx, func(ctx context.Context) error {
		return g.o.Kube.SetSandbox(ctx, c.Metadata.Namespace, c.Status.Sandbox.Name, spec)
	})
	if kube.Code(err) == http.StatusNotFound {
		return notFound(c.Metadata.Name)
	}
	if err != nil {
		return g.cluster(err)
	}
	return nil
}

// handOver has the Sandbox of a claim that pauses by itself end in its place.
func (g *Gateway) handOver(ctx context.Context, c kube.Claim) (kube.Claim, error) {
	if err := g.setSandbox(ctx, c, modeRunning, endOf(c)); err != nil {
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
		err = g.setSandbox(q.ctx, c, modeRunning, until)
	}
	if err != nil {
		return err
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// pause gives a sandbox's pod up, and keeps its volumes. It has no end then. Where an earlier pause has got half of the way, this one goes on.
func (g *Gateway) pause(q call) error {
	end, err := g.begin()
	if err != nil {
		return err
	}
	defer end()
	c, err := g.change(q.ctx, q.namespace, q.id, func(c kube.Claim) (map[string]any, error) {
		ready, _ := c.Ready()
		switch {
		case paused(c) && !ready:
			return nil, wire.Fail(http.StatusConflict, "the sandbox is paused already")
		case paused(c):
			return nil, nil
		case c.Status.Sandbox.Name == "":
			return nil, wire.Fail(http.StatusConflict, "the sandbox has not started yet: try again")
		}
		return note(ends(c, time.Time{}), pausedNote, "true"), nil
	})
	if err == nil {
		err = g.setSandbox(q.ctx, c, modeSuspend, time.Time{})
	}
	if err != nil {
		return err
	}
	ctx, cancel := kube.Within(q.ctx, g.o.Clock, g.o.Ready)
	defer cancel()
	_, err = g.store(q.namespace).Wait(ctx, c, func(c kube.Claim) (bool, error) {
		ready, _ := c.Ready()
		return !ready && len(c.Status.Sandbox.PodIPs) == 0, nil
	})
	switch {
	case errors.Is(err, kube.ErrGone):
		return notFound(q.id)
	case errors.Is(err, context.DeadlineExceeded):
		return wire.Fail(http.StatusGatewayTimeout, "the sandbox's pod has not ended within %v: it will be paused then", g.o.Ready)
	case err != nil:
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
		return note(ends(c, until), pausedNote, nil), nil
	})
	if err != nil {
		return err
	}
	ctx, cancel := kube.Within(q.ctx, g.o.Clock, g.o.Ready)
	defer cancel()
	if ready, _ := c.Ready(); was || !ready || autoPauses(c) { // an earlier connect may have got half of the way
		if err := g.setSandbox(ctx, c, modeRunning, until); err != nil {
			return err
		}
	}
	if c, err = g.started(ctx, c, nil); err != nil { // its variables the pod has kept
		return err
	}
	status := http.StatusOK
	if was {
		status = http.StatusCreated
	}
	wire.Answer(q.w, status, g.object(c))
	return nil
}
