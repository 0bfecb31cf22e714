package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/gateway/kube"
)

// What a sandbox is to do stands in its claim, and its Sandbox follows. Nothing changes both at once, and several replicas may be at it. So who has changed the claim changes the Sandbox after that ([Gateway.tell]): only in the version that it
// has looked at, and only if the claim says the same still after that look. Each such change leaves the claim's version in the Sandbox, so that there is a new version of it, and nobody who looked before can change it any more. So the last change
// of the Sandbox is what the claim says.

// claimNote is the version of the claim for which a Sandbox was changed last, on the Sandbox.
const claimNote = "sandbox-gateway/claim-version"

func notStarted() error {
	return wire.Fail(http.StatusConflict, "the sandbox has not started yet: try again")
}

// tell changes a claim's Sandbox, as long as the claim says whether to be paused as c does. f makes the specification; nil: nothing is to be changed now.
func (g *Gateway) tell(ctx context.Context, c kube.Claim, f func(kube.Sandbox) (map[string]any, error)) (s kube.Sandbox, err error) {
	if c.Status.Sandbox.Name == "" {
		return s, notStarted()
	}
	namespace, id := c.Metadata.Namespace, c.Metadata.Name
	ctx, cancel := kube.Within(ctx, g.o.Clock, changeTime)
	defer cancel()
	err = g.o.Kube.Retry(ctx, func(ctx context.Context) error {
		s, err = g.o.Kube.ChangeSandbox(ctx, namespace, c.Status.Sandbox.Name, func(s kube.Sandbox) (map[string]any, error) {
			spec, err := f(s)
			if err != nil || spec == nil {
				return nil, err
			}
			now, err := g.o.Kube.Claim(ctx, namespace, id)
			switch {
			case err != nil:
				return nil, err
			case now.Metadata.UID != c.Metadata.UID:
				return nil, notFound(id)
			}
			return note(map[string]any{"spec": spec}, claimNote, c.Metadata.ResourceVersion), agree(c, now)
		})
		return err
	})
	if kube.Code(err) == http.StatusNotFound {
		return s, notFound(id)
	}
	if err != nil {
		return s, g.cluster(err)
	}
	return s, nil
}

// agree tells whether a claim says the same as before of whether it is to be paused.
func agree(before, now kube.Claim) error {
	switch {
	case pauseWanted(before) == pauseWanted(now):
		return nil
	case pauseWanted(now):
		return wire.Fail(http.StatusConflict, "the sandbox was paused by somebody else meanwhile")
	}
	return wire.Fail(http.StatusConflict, "the sandbox was connected to by somebody else meanwhile")
}

// runs is the specification of a Sandbox that is to have a pod, and, if it pauses by itself, until when.
func runs(c kube.Claim, until time.Time) map[string]any {
	spec := map[string]any{"operatingMode": kube.ModeRunning}
	if autoPauses(c) {
		spec["shutdownTime"], spec["shutdownPolicy"] = stamp(until), "Retain"
	}
	return spec
}

// rests is that of one that is to have none.
func rests(c kube.Claim) map[string]any {
	spec := map[string]any{"operatingMode": kube.ModeSuspended}
	if autoPauses(c) {
		spec["shutdownTime"] = nil
	}
	return spec
}

// prolong says until when the Sandbox of a claim runs that pauses by itself. One that has paused is left so.
func (g *Gateway) prolong(ctx context.Context, c kube.Claim, until time.Time) error {
	_, err := g.tell(ctx, c, func(s kube.Sandbox) (map[string]any, error) {
		if s.Suspended() || s.Expired(g.o.Clock.Now()) {
			return nil, wire.Fail(http.StatusConflict, "the sandbox is paused: connect to it first")
		}
		return runs(c, until), nil
	})
	return err
}

// suspend has a claim's Sandbox give its pod up, and returns when that has ended.
func (g *Gateway) suspend(ctx context.Context, c kube.Claim) error {
	var pause kube.Backoff
	for seen := c; ; {
		s, err := g.tell(ctx, c, func(s kube.Sandbox) (map[string]any, error) {
			if s.PodEnded() && s.Metadata.Annotations[claimNote] == c.Metadata.ResourceVersion {
				return nil, nil
			}
			return rests(c), nil
		})
		if err != nil || s.PodEnded() {
			return err
		}
		if seen, err = g.resting(ctx, c, seen, &pause); err != nil {
			return err
		}
	}
}

// wake has a claim's Sandbox have a pod again. agent-sandbox takes a pod that is still ending for the one that is wanted: so it is told to have one when it has said that there is none any more, and until then that there shall be none.
func (g *Gateway) wake(ctx context.Context, c kube.Claim, until time.Time) error {
	var pause kube.Backoff
	for seen := c; ; {
		rested := atRest(seen)
		s, err := g.tell(ctx, c, func(s kube.Sandbox) (map[string]any, error) {
			switch {
			case s.Suspended() && (!rested || !s.PodEnded()):
				return nil, nil
			case !s.Suspended() && s.Expired(g.o.Clock.Now()):
				return rests(c), nil
			}
			return runs(c, until), nil
		})
		if err != nil || !s.Suspended() {
			return err
		}
		if seen, err = g.resting(ctx, c, seen, &pause); err != nil {
			return err
		}
	}
}

// atRest tells whether a claim says that its Sandbox has no pod, as it should. It says so a little later than the Sandbox.
func atRest(c kube.Claim) bool {
	return suspended(c) && len(c.Status.Sandbox.PodIPs) == 0
}

// resting waits until a claim says that its Sandbox has no pod. c is the claim as it was changed, seen as it was when its Sandbox was looked at: if it said so then, there is nothing to wait for but the Sandbox.
func (g *Gateway) resting(ctx context.Context, c, seen kube.Claim, pause *kube.Backoff) (now kube.Claim, err error) {
	if atRest(seen) {
		err = pause.Pause(ctx, g.o.Clock, nil)
	}
	if err == nil {
		now, err = g.store(c.Metadata.Namespace).Wait(ctx, c, func(now kube.Claim) (bool, error) { return atRest(now), agree(c, now) })
	}
	switch {
	case errors.Is(err, kube.ErrGone):
		return now, notFound(c.Metadata.Name)
	case errors.Is(err, context.DeadlineExceeded):
		return now, wire.Fail(http.StatusGatewayTimeout, "the sandbox's pod has not ended within %v: the cluster goes on with that", g.o.Ready)
	}
	return now, err
}
