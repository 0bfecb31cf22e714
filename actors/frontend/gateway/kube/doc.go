// Package kube speaks to a Kubernetes API server, as far as the gateway needs it: plain REST with a service account, and the two resources of agent-sandbox that it works on.
//
//	c, err := kube.New(kube.Config{Server: url, TokenFile: token, CAFile: ca})
//	claim, err := c.CreateClaim(ctx, "team-a", kube.Claim{...})
//	store := kube.NewStore(c, "team-a", labels)
//	go store.Run(ctx)
//	claim, err = store.Wait(ctx, claim.Metadata.Name, ready)
//
// # Rules
//
//   - What is waited for is watched, never asked for again and again ([Store]). A watch that ends begins again where it was; one that is too old (410) begins with a list.
//   - Whatever fails in a way that passes (no connection, 429, 5xx) is tried again after a pause that doubles ([Backoff]), with a part of it by chance, so that replicas do not come at the same instant.
//   - A refusal (403) of a server that has just started says nothing: it is tried again until the server is ready ([Client.Retry]).
//   - A change names the version of the object that it was made for. If somebody was faster (409), it is made again for the new one ([Client.ChangeClaim], [Client.ChangeSandbox]). Changes of one object by one client wait for each other.
//   - The token is read from its file for each request: the kubelet replaces it.
//
// # Trust
//
// The API server is trusted with what it says, and not with how much: answers, lines of a watch and the objects of a store are bounded. What a claim says of itself (names, reasons, messages) may come from
// somebody who may write to the namespace, and is text.
//
// Types are safe for concurrent use, except [Backoff]. Store.mu and turns.mu are held for moments, and nothing is called with them.
package kube
