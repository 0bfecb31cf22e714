// Package web holds what every frontend does alike that listens for HTTP on the network: which address may be listened at, who may ask
// ([Keys], [Access]), how TLS's files are read ([OpenCertificate]), and how much a client may take ([Listen], [Serve], [Body]).
//
//	keys, err := web.OpenKeys("/etc/sandbox/keys", log)
//	l, err := web.Listen(web.Listening{Address: "127.0.0.1:8080", Flag: "--listen", Keys: true})
//	access := web.Access{Loopback: web.IsLoopback(l), Origins: origins}
//	err = web.Serve(ctx, l, access.Handler(keys.Handler(handler)), web.Serving{Logger: log})
//
// It knows no protocol: a frontend that has a form of its own for errors gives it ([Refuse]).
//
// # Rules
//
//   - Without keys only a loopback address is listened at: whoever reaches the listener may do what a client may.
//   - At a loopback address the Host header must be a name of this machine, so that a name which is made to lead here (DNS rebinding) gets nothing. An Origin header must be one of
//     those that were allowed by name. Browsers send one with all that could change something.
//   - Keys and private keys are read from files that nobody else can read or change. A key is compared by its digest, with all keys and in constant time; it is kept, and logged, nowhere.
//   - The files are read again when they have changed. Whose keys cannot be read any more lets nobody in; whose certificate cannot be read keeps the one before.
//
// # Bounds
//
// A listener has a number of connections at a time; more wait in the kernel. A request's head is bounded in size and in time, a body by [Body] or, if no handler reads it, in time, and a client that does not
// read what it is sent for [WriteTime] is gone.
//
// What comes over the network is hostile. Types are safe for concurrent use where nothing else is said. The mutex of a file that is read again is held while it is read.
package web
