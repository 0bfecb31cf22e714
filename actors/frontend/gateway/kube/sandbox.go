package kube

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// The values of [SandboxSpec.OperatingMode].
const (
	ModeRunning   = "Running"
	ModeSuspended = "Suspended"
)

// ReasonExpired is why a Sandbox is not ready that has had its end, and a claim whose Sandbox has.
const ReasonExpired = "SandboxExpired"

// Sandbox is a claim's Sandbox: what its controller is told to do.
type Sandbox struct {
	Metadata Metadata    `json:"metadata"`
	Spec     SandboxSpec `json:"spec"`
	Status   struct {
		Conditions []Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

// SandboxSpec is what is wanted, as far as it is used here.
type SandboxSpec struct {
	OperatingMode string     `json:"operatingMode,omitempty"` // empty: Running
	ShutdownTime  *time.Time `json:"shutdownTime,omitempty"`
}

// Suspended tells whether the Sandbox is to have no pod.
func (s *Sandbox) Suspended() bool { return s.Spec.OperatingMode == ModeSuspended }

// PodEnded tells whether the controller says of a Sandbox that is to have no pod that it has none any more. What it has said of an earlier specification does not count.
func (s *Sandbox) PodEnded() bool { return s.Suspended() && s.says("Suspended", "True", "") }

// Expired tells whether the Sandbox has had its end: by the clock, or because the controller says so.
func (s *Sandbox) Expired(now time.Time) bool {
	end := s.Spec.ShutdownTime
	return end != nil && (!now.Before(*end) || s.says("Ready", "False", ReasonExpired))
}

// says tells whether there is a condition about the specification of now. An empty reason is any.
func (s *Sandbox) says(kind, status, reason string) bool {
	for _, o := range s.Status.Conditions {
		if o.Type == kind && o.Status == status && (reason == "" || o.Reason == reason) && o.Generation >= s.Metadata.Generation {
			return true
		}
	}
	return false
}

func sandboxPath(namespace, name string) string {
	return "/apis/" + sandboxGroup + "/namespaces/" + url.PathEscape(namespace) + "/sandboxes/" + url.PathEscape(name)
}

// Sandbox asks for a Sandbox: by a patch that changes nothing. Who may change Sandboxes is told of them, and needs no other right for that.
func (c *Client) Sandbox(ctx context.Context, namespace, name string) (out Sandbox, err error) {
	err = c.do(ctx, request{method: http.MethodPatch, path: sandboxPath(namespace, name), kind: mergeType, body: map[string]any{}}, maxAnswer, &out)
	return out, err
}

// ChangeSandbox changes a Sandbox as [Client.ChangeClaim] does a claim.
func (c *Client) ChangeSandbox(ctx context.Context, namespace, name string, f func(Sandbox) (map[string]any, error)) (Sandbox, error) {
	return change(ctx, c, sandboxPath(namespace, name), func(ctx context.Context) (Sandbox, string, error) {
		s, err := c.Sandbox(ctx, namespace, name)
		return s, s.Metadata.ResourceVersion, err
	}, f)
}
