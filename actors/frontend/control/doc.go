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
package control
