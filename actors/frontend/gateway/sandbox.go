package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/gateway/kube"
)

// What the gateway writes on claims.
const (
	managedLabel, managedValue = "sandbox-gateway/managed", "true"
	metadataNote               = "sandbox-gateway/metadata" // what the client said of it, as JSON
	pausedNote                 = "sandbox-gateway/paused"
	privateNote                = "sandbox-gateway/private-traffic"
	requestNote                = "sandbox-gateway/request" // of the create that made it
	autoResumeNote             = "sandbox-gateway/auto-resume"
	autoPauseNote              = "sandbox-gateway/auto-pause" // when its Sandbox gives up its pod, and keeps its volumes: the claim has no end of its own then
)

const (
	// reasonSuspended is what a claim says of a Sandbox that is to have no pod.
	reasonSuspended = "SandboxSuspended"
	// changeTime is how long the gateway tries to change a claim while the API server is away.
	changeTime = 30 * time.Second
	// maxMetadata bounds what a client says of a sandbox, as JSON: all annotations of an object have 256 KiB.
	maxMetadata = 64 << 10
)

func private(c kube.Claim) bool { return c.Metadata.Annotations[privateNote] == "true" }

// metadataOf is what the client said of a sandbox. Somebody else may have changed it.
func metadataOf(c kube.Claim) map[string]string {
	m := map[string]string{}
	if text := []byte(c.Metadata.Annotations[metadataNote]); len(text) > maxMetadata || json.Unmarshal(text, &m) != nil {
		return map[string]string{}
	}
	return m
}

// unsupported says what of a new sandbox cannot be had.
func unsupported(n wire.NewSandbox) error {
	if n.Offline() {
		return wire.Fail(http.StatusNotImplemented, "allow_internet_access: the cluster's NetworkPolicy says what sandboxes reach")
	}
	return n.Unsupported("the cluster's NetworkPolicy says what sandboxes reach; only allowPublicTraffic can be asked for")
}

// claim makes what is to be created.
func (g *Gateway) claim(namespace string, n wire.NewSandbox) (c kube.Claim, err error) {
	if err := unsupported(n); err != nil {
		return c, err
	}
	n.TemplateID = cmp.Or(n.TemplateID, wire.BaseTemplate)
	if !isName(n.TemplateID) {
		return c, wire.Fail(http.StatusBadRequest, "templateID: %s is no name of a SandboxWarmPool", frontend.Short([]byte(frontend.Valid(n.TemplateID))))
	}
	life, err := wire.Timeout(n.Timeout)
	if err != nil {
		return c, err
	}
	if _, err := frontend.Environ(nil, n.EnvVars); err != nil {
		return c, wire.Fail(http.StatusBadRequest, "envVars: %s", err)
	}
	if n.Metadata == nil {
		n.Metadata = map[string]string{}
	}
	metadata, err := json.Marshal(n.Metadata)
	if err != nil || len(metadata) > maxMetadata {
		return c, wire.Fail(http.StatusBadRequest, "metadata: it has more than %d bytes", maxMetadata)
	}
	end := g.o.Clock.Now().Add(life).UTC().Truncate(time.Second)
	until := end
	if n.AutoPause {
		end = end.Add(g.o.Ready) // until its Sandbox has its end: nothing is left if we do not get so far
	}
	c = kube.Claim{
		Metadata: kube.Metadata{
			Name: wire.NewID(), Namespace: namespace, Labels: map[string]string{managedLabel: managedValue},
			Annotations: map[string]string{metadataNote: string(metadata), requestNote: wire.NewID()},
		},
		Spec: kube.ClaimSpec{WarmPoolRef: kube.Ref{Name: n.TemplateID}, Lifecycle: &kube.Lifecycle{ShutdownTime: &end, ShutdownPolicy: "Delete"}},
	}
	if n.AutoPause {
		c.Metadata.Annotations[autoPauseNote] = until.Format(time.RFC3339)
	}
	if n.AutoResume != nil && n.AutoResume.Enabled {
		c.Metadata.Annotations[autoResumeNote] = "true"
	}
	if n.Private() {
		c.Metadata.Annotations[privateNote] = "true"
	}
	return c, nil
}

// create makes a sandbox, and waits until it answers. If it does not, nothing of it is left.
func (g *Gateway) create(q call) error {
	var n wire.NewSandbox
	if err := wire.Read(q.r, &n); err != nil {
		return err
	}
	want, err := g.claim(q.namespace, n)
	if err != nil {
		return err
	}
	end, err := g.begin()
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := kube.Within(q.ctx, g.o.Clock, g.o.Ready)
	defer cancel()
	claim, err := g.claimed(ctx, want)
	if err == nil {
		g.o.Logger.Info("sandbox claimed", "namespace", q.namespace, "claim", want.Metadata.Name, "pool", want.Spec.WarmPoolRef.Name)
		claim, err = g.started(ctx, claim, n.EnvVars)
	}
	if err == nil && autoPauses(claim) {
		claim, err = g.handOver(ctx, claim)
	}
	if err != nil {
		g.o.Logger.Info("sandbox not started", "namespace", q.namespace, "claim", want.Metadata.Name, "err", err)
		g.abandon(q.ctx, want)
		return err
	}
	wire.Answer(q.w, http.StatusCreated, g.object(claim))
	return nil
}

// begin counts in a claim that is waited for, unless there are too many.
func (g *Gateway) begin() (end func(), err error) {
	select {
	case g.pending <- struct{}{}:
		return func() { <-g.pending }, nil
	default:
		return nil, wire.Fail(http.StatusTooManyRequests, "%d sandboxes are being started: try again", maxPending)
	}
}

// claimed creates a claim. An answer may be lost on its way: a claim of that name which we have made is ours.
func (g *Gateway) claimed(ctx context.Context, want kube.Claim) (got kube.Claim, err error) {
	namespace := want.Metadata.Namespace
	err = g.o.Kube.Retry(ctx, func(ctx context.Context) error {
		var err error
		if got, err = g.o.Kube.CreateClaim(ctx, namespace, want); kube.Code(err) == http.StatusConflict {
			if got, err = g.o.Kube.Claim(ctx, namespace, want.Metadata.Name); err == nil && got.Metadata.Annotations[requestNote] != want.Metadata.Annotations[requestNote] {
				return wire.Fail(http.StatusConflict, "the id is taken: try again")
			}
		}
		return err
	})
	if kube.Code(err) == http.StatusNotFound {
		return got, wire.Fail(http.StatusServiceUnavailable, "the namespace of this key, or agent-sandbox, is not in the cluster")
	}
	if err != nil {
		return got, g.cluster(err)
	}
	got.Metadata.Namespace = namespace
	return got, nil
}

// abandon deletes what was created for nobody. When nobody waits any more it goes on for a while.
func (g *Gateway) abandon(ctx context.Context, c kube.Claim) {
	ctx, cancel := kube.Within(context.WithoutCancel(ctx), g.o.Clock, changeTime)
	defer cancel()
	err := g.o.Kube.Retry(ctx, func(ctx context.Context) error {
		now, err := g.o.Kube.Claim(ctx, c.Metadata.Namespace, c.Metadata.Name)
		if err != nil || now.Metadata.Annotations[requestNote] != c.Metadata.Annotations[requestNote] {
			return err
		}
		return g.o.Kube.DeleteClaim(ctx, c.Metadata.Namespace, c.Metadata.Name, now.Metadata.UID)
	})
	if err != nil && kube.Code(err) != http.StatusNotFound {
		g.o.Logger.Warn("a claim that nobody has is left until its end", "namespace", c.Metadata.Namespace, "claim", c.Metadata.Name, "err", err)
	}
}

// hopeless is the status for a reason for which a claim is not ready and will not become so, or 0.
func hopeless(reason string) int {
	switch reason {
	case "WarmPoolNotFound", "TemplateNotFound":
		return http.StatusNotFound
	case "InvalidMetadata", "EnvVarsInjectionRejected", "VolumeClaimTemplatesError":
		return http.StatusBadRequest
	case "ClaimExpired", "SandboxExpired":
		return http.StatusConflict
	case "PodFailed", "PodSucceeded":
		return wire.StatusGone
	}
	return 0
}

// started waits until a claim's pod answers, and gives it its token. seen is the claim as it was when it was told to start. A pod that does not answer may be about to be replaced by another one: so the claim is looked at again before each try.
func (g *Gateway) started(ctx context.Context, seen kube.Claim, envs map[string]string) (kube.Claim, error) {
	var pause kube.Backoff
	for {
		claim, err := g.hasPod(ctx, seen)
		if err != nil {
			return claim, err
		}
		err = g.initialise(ctx, claim, envs)
		if !errors.Is(err, errSilent) {
			return claim, err
		}
		if cause := pause.Pause(ctx, g.o.Clock, nil); cause != nil {
			if !errors.Is(cause, context.DeadlineExceeded) {
				return claim, cause
			}
			return claim, wire.Fail(http.StatusGatewayTimeout, "the sandbox's pod is ready, but %s", err)
		}
	}
}

// hasPod waits until a claim is ready.
func (g *Gateway) hasPod(ctx context.Context, seen kube.Claim) (kube.Claim, error) {
	claim, err := g.store(seen.Metadata.Namespace).Wait(ctx, seen, func(c kube.Claim) (bool, error) {
		ready, why := c.Ready()
		if _, ok := c.PodIP(); ready && ok {
			return true, nil
		}
		if status := hopeless(why.Reason); status != 0 && why.Status == "False" && !overslept(c) {
			return false, wire.Fail(status, "the sandbox does not start: %s: %s", why.Reason, why.Message)
		}
		return false, agree(seen, c)
	})
	claim.Metadata.Namespace = seen.Metadata.Namespace
	switch {
	case errors.Is(err, kube.ErrGone):
		return claim, wire.Fail(http.StatusConflict, "the sandbox was deleted by somebody else before it was ready")
	case errors.Is(err, context.DeadlineExceeded):
		return claim, g.late(ctx, claim)
	}
	return claim, err
}

// late says why a claim is not ready in time: what its condition says, and the last warning about it.
func (g *Gateway) late(ctx context.Context, c kube.Claim) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), syncTime)
	defer cancel()
	if now, err := g.o.Kube.Claim(ctx, c.Metadata.Namespace, c.Metadata.Name); err == nil {
		now.Metadata.Namespace, c = c.Metadata.Namespace, now
	}
	_, why := c.Ready()
	text := "nothing is said of it: is the controller of agent-sandbox running?"
	if why.Reason != "" {
		text = why.Reason + ": " + why.Message
	}
	names := []string{c.Metadata.Name}
	if name := c.Status.Sandbox.Name; name != "" && name != c.Metadata.Name {
		names = append(names, name) // the Sandbox's, and its pod's
	}
	var last kube.Event
	for _, name := range names {
		events, err := g.o.Kube.Events(ctx, c.Metadata.Namespace, name)
		if err != nil {
			g.o.Logger.Warn("events", "namespace", c.Metadata.Namespace, "name", name, "err", err)
			continue
		}
		for _, e := range events {
			if e.Type == "Warning" && !e.When().Before(last.When()) {
				last = e
			}
		}
	}
	if last.Reason != "" {
		text += "; " + last.Reason + ": " + last.Message
	}
	return wire.Fail(http.StatusGatewayTimeout, "the sandbox was not ready within %v: %s", g.o.Ready, text)
}

// change changes a claim of a tenant's, also if the API server is away for a while.
func (g *Gateway) change(ctx context.Context, namespace, id string, f func(kube.Claim) (map[string]any, error)) (out kube.Claim, err error) {
	if !wire.IsID(id) {
		return out, notFound(id)
	}
	ctx, cancel := kube.Within(ctx, g.o.Clock, changeTime)
	defer cancel()
	err = g.o.Kube.Retry(ctx, func(ctx context.Context) error {
		out, err = g.o.Kube.ChangeClaim(ctx, namespace, id, func(c kube.Claim) (map[string]any, error) {
			if c.Metadata.Labels[managedLabel] != managedValue {
				return nil, notFound(id)
			}
			return f(c)
		})
		return err
	})
	out.Metadata.Namespace = namespace
	if kube.Code(err) == http.StatusNotFound {
		return out, notFound(id)
	}
	if err != nil {
		return out, g.cluster(err)
	}
	g.store(namespace).Saw(out)
	return out, nil
}
