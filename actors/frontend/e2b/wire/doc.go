// Package wire is what all servers of E2B's protocol say alike: the ids of sandboxes, ports, and how a sandbox is told to a client. The
// server on one machine (actors/frontend/e2b) and the gateway of a cluster (actors/frontend/gateway) have it from here.
//
//	box := wire.Sandbox{SandboxID: wire.NewID(), ClientID: wire.ClientID, EnvdVersion: wire.EnvdVersion}
//
// Functions are safe for concurrent use and have no state.
package wire
