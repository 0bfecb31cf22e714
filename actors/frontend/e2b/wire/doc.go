// Package wire is what all servers of E2B's protocol say and read alike: the ids of sandboxes, which sandbox and port a request is for, the objects of the REST API, lists by filter and page, and errors. The
// server on one machine (actors/frontend/e2b) and the gateway of a cluster (actors/frontend/gateway) have it from here.
//
//	box := wire.Sandbox{SandboxID: wire.NewID(), ClientID: wire.ClientID, EnvdVersion: wire.EnvdVersion}
//
// What a client sends is bounded by who reads it, and hostile: what is said of it in an error is cut short. Functions are safe for concurrent use and have no state.
package wire
