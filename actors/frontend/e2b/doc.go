// Package e2b serves sandboxes to programs that use E2B's SDK: its REST API and the API
// of the program that runs in each of its sandboxes (envd), over HTTP/1.1 with JSON.
// docs/e2b.md is the reference for users; this says what keeps it correct.
//
//	s, err := e2b.New(e2b.Options{Start: start, Root: dir})
//	...
//	err = s.Serve(ctx, listener)
//
// # Two roles on one listener
//
// Which role answers a request is decided before anything else of it is read ([Server.ServeHTTP]):
//
//   - A request that names a sandbox and a port is of that sandbox: by the headers E2b-Sandbox-Id and E2b-Sandbox-Port,
//     or by a host name PORT-ID.DOMAIN. Port 49983 is envd (commands and files); other ports are those of programs inside.
//   - Everything else is the REST API, which makes, lists and ends sandboxes ([RoleAPI]).
//
// With [RoleEnvd] there is one sandbox, which the caller has made, and no REST API: this is what runs in a pod.
//
// # Sandboxes
//
// A sandbox is a directory below the root: the folder that commands work in (home), and metadata.json. As long as it runs, it has
// a session ([api.Live]). Pausing closes the session and keeps the folder and its undo log. A sandbox's lifecycle calls (start, pause,
// end, snapshot) come one after the other: sandbox.turn. sandbox.mu is held for moments, and no other lock is taken with it.
// Server.mu guards the map of sandboxes alone; it is never held while sandbox.mu is waited for.
//
// # What is hostile
//
// Whoever can reach the listener, and every program inside. Headers, bodies and frames are bounded before they are kept; the
// readers of answers have deadlines; a sandbox's id is random, and compared with what ids look like before it becomes part of a path;
// tokens and signatures are compared in constant time. Paths within a sandbox are resolved by the session, never here. No answer has a
// header that would let another web page read it. Without API keys only names of this machine are answered, and no browser.
//
// # Actors
//
// Each HTTP connection has an actor in each session that it asks something of (frontends/e2b/N in 'sandbox inspect'), with the calls
// that are under way. Commands do not belong to a connection: they go on when it ends.
package e2b
