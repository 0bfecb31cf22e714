// Package api is what a session offers: to commands, to frontends, and to another
// process over the control socket. It holds the interfaces ([Service] for
// folders and their history, [Live] for a running session), their requests,
// results and events, the errors that callers test for, and the configuration
// that starts a session.
//
// What a frontend can pass on as it is stands in one table ([Operations]): a row
// names the operation for each frontend, beside its types. So a new request is a
// type, a method of an interface and a row, in one file here, and the method of
// the session:
//
//	{Control: "size", STDIO: "undo.size", Traits: Reads, Call: asks(Historian.Size)},
//	func (c Remote) Size(ctx context.Context, r StepRequest) (Size, error) { return ask[Size](ctx, c, "size", r) }
//
// Over STDIO, a client cannot send the fields of a request with the tag
// stdio:"-"; the tag jsonschema describes a field in the schemas and the documents.
//
// Only types and that table are here. What implements them is composed by package actors, which
// links every bridge and the actor library; this package links neither, so that
// a client costs nothing of them (a test proves it). Types of the undo log's
// facade (undolog.Entry and the like) and of fsbridge/files stand as they are:
// those packages serve no bridge.
//
// # Concurrency
//
// All methods of all interfaces are safe for concurrent use, unless an interface
// says otherwise. Requests are values; nobody keeps or changes what they refer to
// after the call, except the open files of a [RunRequest], which stay the
// caller's until Run returns.
package api
