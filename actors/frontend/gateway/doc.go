// Package gateway gives programs that use E2B's SDK sandboxes in a Kubernetes cluster: it answers the SDK's REST API by claims of agent-sandbox, and passes everything else on to the sandboxes' pods.
//
//	g, err := gateway.New(gateway.Options{Kube: client, Keys: keys, Secret: secret})
//	err = g.Serve(ctx, listener)
//
// It is stateless: what there is stands in the API server, and a replica knows it from there by one watch for each namespace (package kube). Any replica answers any request. Scheduling, warm pools, volumes, quotas
// and eviction are the cluster's.
//
// # What is mapped to what
//
// A sandbox is a SandboxClaim, its id is the claim's name, its template the name of a SandboxWarmPool. What the client says of it (metadata) and what it wants (paused, private traffic) are annotations of the claim.
// create waits until the claim is ready, and gives the pod its token by POST /init. A timeout is the claim's shutdownTime, pause is operatingMode Suspended of the claim's Sandbox, connect is Running. A sandbox that pauses by itself has the
// shutdownTime in its Sandbox (lifecycle.go). The claim says what is wanted, and its Sandbox follows; how that goes well with several replicas is in mode.go. The variables that create gives are kept by the pod, and nowhere in the cluster's objects: they may be secrets.
//
// # Tenants
//
// A key names a namespace, and a namespace is a tenant. What is in another namespace does not exist for it: 404. A sandbox's token is an HMAC of its namespace and id, so no replica keeps any, and one that was made
// for another sandbox, or in another namespace, opens nothing. Who has a token, and no key, is looked up by trying the namespaces' HMACs: nothing is asked of the API server for who has none.
//
// # What is hostile
//
// Clients, and pods: programs inside may have taken over what answers there. An answer of a pod is passed on to its own client, redirects are not followed, and a pod gets no key of the REST API. A pod's address is
// taken from the claim's status, and must be one at which pods can be.
//
// # Bounds
//
// Bodies of the REST API, claims under way, connections, and the time until a claim is ready are bounded. A claim that does not become ready is deleted, and the error says why: its conditions, and the last warnings
// among its events.
//
// A [Gateway] may be used concurrently. Gateway.mu guards the map of namespaces, and nothing is asked with it held.
package gateway
