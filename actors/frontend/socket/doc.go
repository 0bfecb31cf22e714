// Package socket makes the unix sockets that a session is reached by: private to
// its user, and under their names only when somebody listens there.
package socket
