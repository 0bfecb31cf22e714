// Package container runs commands as an ordinary container does: by an OCI runtime (runc), with
// the seccomp profile and the capabilities that container engines give by default
// (seccomp.json is that profile without what they allow only with more capabilities), in
// namespaces of its own except the network's, with this machine's programs read-only.
//
// A [Spec] says what differs. Nothing of a container is left when [Run] returns.
package container
