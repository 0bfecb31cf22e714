// Package runtimeapi serves a session to the clients of kubernetes-sigs/agent-sandbox (Python's, Go's, and what is built on them): the HTTP API that they expect in a
// sandbox's pod at port 8888. docs/e2b.md is the reference for users; this says what keeps it correct.
//
//	s, err := runtimeapi.New(runtimeapi.Options{Live: live, Environ: environ, Token: token})
//	...
//	err = s.Serve(ctx, listener)
//
// # The form
//
// Requests and answers are those of agent-sandbox's runtime for Python, as its clients send and read them (v0.5.6):
//
//   - GET / says that it runs; POST /execute {"command"} answers {"stdout", "stderr", "exit_code"}; POST /upload has a multipart form with one part "file", named by its path;
//     GET /download/PATH, /list/PATH and /exists/PATH. An error is {"message"}.
//   - A command is split into words as a shell would ([split]), and no shell runs: it is a program and its arguments. It runs in the folder. What cannot be run at all is an answer, too: exit code 1.
//   - Paths are relative to the folder, also those that begin with a slash. One that leads out of it, by ".." or by a symlink, is 403.
//   - Clients send a request again whose answer has a status of 500 or above, a command as well. So a command that has begun is never answered with one. They follow no redirect: there is none.
//
// Our own requests about the history (POST /undo and so on) are answered by [Options].History.
//
// # Who may ask
//
// As long as the sandbox has a token, whoever shows it. Without one, at a loopback address, every program of this machine; elsewhere nobody, unless [Options].Open says that whoever reaches the listener may. No browser, ever.
//
// # What is hostile
//
// Whoever can reach the listener, and every program inside. Heads, bodies and outputs are bounded, a body has to come and an answer to be taken. Paths are resolved by the session, never here.
//
// # Actors and locks
//
// Each connection has an actor in the session ([frontend.Clients]). A command belongs to its request: when the client has gone, it is ended, because nobody could ask for its output. There are no locks.
package runtimeapi
