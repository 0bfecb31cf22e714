package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// Resources of agent-sandbox.
const (
	claimGroup   = "extensions.agents.x-k8s.io/v1beta1"
	sandboxGroup = "agents.x-k8s.io/v1beta1"
)

// Metadata is what all objects have, as far as it is used here.
type Metadata struct {
	Name            string            `json:"name,omitempty"`
	Namespace       string            `json:"namespace,omitempty"`
	UID             string            `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Generation      int64             `json:"generation,omitempty"` // of the specification
	Created         time.Time         `json:"creationTimestamp,omitzero"`
	Deleted         time.Time         `json:"deletionTimestamp,omitzero"`
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

// Claim is a SandboxClaim: somebody's sandbox.
type Claim struct {
	APIVersion string      `json:"apiVersion,omitempty"`
	Kind       string      `json:"kind,omitempty"`
	Metadata   Metadata    `json:"metadata"`
	Spec       ClaimSpec   `json:"spec"`
	Status     ClaimStatus `json:"status,omitzero"`
}

// ClaimSpec is what is wanted.
type ClaimSpec struct {
	WarmPoolRef Ref        `json:"warmPoolRef"`
	Lifecycle   *Lifecycle `json:"lifecycle,omitempty"`
}

// Ref names an object of the same namespace.
type Ref struct {
	Name string `json:"name"`
}

// Lifecycle says when a claim ends.
type Lifecycle struct {
	ShutdownTime   *time.Time `json:"shutdownTime,omitempty"`
	ShutdownPolicy string     `json:"shutdownPolicy,omitempty"`
}

// ClaimStatus is what there is.
type ClaimStatus struct {
	Conditions []Condition   `json:"conditions,omitempty"`
	Sandbox    SandboxStatus `json:"sandbox,omitzero"`
}

// SandboxStatus names the claim's Sandbox and the addresses of its pod.
type SandboxStatus struct {
	Name   string   `json:"name,omitempty"`
	PodIPs []string `json:"podIPs,omitempty"`
}

// Condition is one thing that is said of an object.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Generation is that of the object of which it is said.
	Generation int64 `json:"observedGeneration,omitempty"`
}

// Ready returns what is said of whether the claim is ready.
func (c *Claim) Ready() (is bool, why Condition) {
	for _, o := range c.Status.Conditions {
		if o.Type == "Ready" {
			return o.Status == "True", o
		}
	}
	return false, Condition{}
}

// PodIP is the address of the claim's pod. ok is false where there is none, or one at which no pod can be.
func (c *Claim) PodIP() (ip netip.Addr, ok bool) {
	for _, text := range c.Status.Sandbox.PodIPs {
		ip, err := netip.ParseAddr(text)
		if err == nil && ip.Zone() == "" && ip.IsValid() && !ip.Unmap().IsLoopback() && !ip.IsUnspecified() && !ip.IsMulticast() && !ip.IsLinkLocalUnicast() {
			return ip.Unmap(), true
		}
	}
	return netip.Addr{}, false
}

// Expires is when the claim ends; zero: never.
func (c *Claim) Expires() time.Time {
	if c.Spec.Lifecycle == nil || c.Spec.Lifecycle.ShutdownTime == nil {
		return time.Time{}
	}
	return *c.Spec.Lifecycle.ShutdownTime
}

func claims(namespace string) string {
	return "/apis/" + claimGroup + "/namespaces/" + url.PathEscape(namespace) + "/sandboxclaims"
}

func claimPath(namespace, name string) string {
	return claims(namespace) + "/" + url.PathEscape(name)
}

// CreateClaim creates a claim. It is not tried again.
func (c *Client) CreateClaim(ctx context.Context, namespace string, claim Claim) (out Claim, err error) {
	claim.APIVersion, claim.Kind = claimGroup, "SandboxClaim"
	err = c.do(ctx, request{method: http.MethodPost, path: claims(namespace), kind: jsonType, body: claim}, maxAnswer, &out)
	return out, err
}

// Claim asks for a claim. One that is being deleted is gone: 404.
func (c *Client) Claim(ctx context.Context, namespace, name string) (out Claim, err error) {
	err = c.do(ctx, request{method: http.MethodGet, path: claimPath(namespace, name)}, maxAnswer, &out)
	if err == nil && !out.Metadata.Deleted.IsZero() {
		err = &StatusError{Code: http.StatusNotFound, Reason: "NotFound", Message: "it is being deleted"}
	}
	return out, err
}

// DeleteClaim deletes a claim, and all that belongs to it. uid may be empty: else another claim of that name is left (409).
func (c *Client) DeleteClaim(ctx context.Context, namespace, name, uid string) error {
	body := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
	if uid != "" {
		body["preconditions"] = map[string]string{"uid": uid}
	}
	return c.do(ctx, request{method: http.MethodDelete, path: claimPath(namespace, name), kind: jsonType, body: body}, maxAnswer, nil)
}

// ChangeClaim changes a claim by a merge patch that f makes for what the claim is at that moment; nil: nothing is to be changed. Changes of one claim by this client wait for each other. If somebody else changes it meanwhile, f is asked
// again; if that goes on, the error is a [StatusError] with 409.
func (c *Client) ChangeClaim(ctx context.Context, namespace, name string, f func(Claim) (map[string]any, error)) (Claim, error) {
	return change(ctx, c, claimPath(namespace, name), func(ctx context.Context) (Claim, string, error) {
		claim, err := c.Claim(ctx, namespace, name)
		return claim, claim.Metadata.ResourceVersion, err
	}, f)
}

// Event is something that happened to an object. Kubelets tell of it by the older of two interfaces, which fills in Last; the scheduler and controllers by the newer one, which leaves Last empty.
type Event struct {
	Type    string    `json:"type"` // Normal or Warning
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Last    time.Time `json:"lastTimestamp,omitzero"`
	At      time.Time `json:"eventTime,omitzero"`
	Series  struct {
		Last time.Time `json:"lastObservedTime,omitzero"`
	} `json:"series,omitzero"` // what has happened several times
}

// When is the last time that it happened.
func (e *Event) When() time.Time {
	return slices.MaxFunc([]time.Time{e.Last, e.At, e.Series.Last}, time.Time.Compare)
}

// mostEvents is how many are asked for.
const mostEvents = 50

// Events are some of an object's, as the server has them: not in their order.
func (c *Client) Events(ctx context.Context, namespace, name string) ([]Event, error) {
	var list struct{ Items []Event }
	q := url.Values{"fieldSelector": {"involvedObject.name=" + name}, "limit": {fmt.Sprint(mostEvents)}}
	err := c.do(ctx, request{method: http.MethodGet, path: "/api/v1/namespaces/" + url.PathEscape(namespace) + "/events", query: q}, maxAnswer, &list)
	return list.Items, err
}
