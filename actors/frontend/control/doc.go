// Package control is the wire of a session's control socket: JSON lines over a
// unix socket, one request or answer a line.
//
//	-> {"id":7,"method":"undo","params":{"count":1}}
//	<- {"id":7,"part":"..."}                         (methods that stream)
//	<- {"id":7,"result":{...}}
//	<- {"id":7,"error":{"code":"busy","message":"...","data":{...}}}
//
// Requests of one connection run concurrently; answers carry their id and come
// in any order. The socket has mode 0600 and the peer's user id is checked:
// only root and the user who owns this process may talk. A request is at most
// [MaxRequest] bytes; what is not a request gets an error and the connection
// lives on, except when a line is too long. What methods exist is not known
// here: the server has a [Handler].
//
// # A session in another process
//
// This part is a session as other processes see it: the file that registers it
// ([Registration]), the requests of its control socket ([SessionServer]), and the client
// that asks them ([SessionClient], an [api.Service] like the session itself).
//
// The methods are the rows of [api.Operations] that have a name here, and those that
// need the connection (run, signal, subscribe). Errors keep their
// identity: a sentinel error crosses as a code and is the same sentinel on the other
// side (errors.Is), one with data is made again from it (errors.As).
//
// A session registers before it makes its socket, so that no socket is left without a
// registration wherever it is killed. Whoever lists registrations removes what killed
// sessions have left. The files are the user's own; what is in them is believed only
// as far as somebody answers at the socket.
package control
