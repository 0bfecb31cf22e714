// Package remote is a session as other processes see it: the file that registers it
// ([Registration]), the requests of its control socket ([Server]), and the client
// that asks them ([Client], an [api.Service] like the session itself).
//
// The wire is package control's; here are the methods, and how errors keep their
// identity: a sentinel error crosses as a code and is the same sentinel on the other
// side (errors.Is), one with data is made again from it (errors.As).
//
// A session registers before it makes its socket, so that no socket is left without a
// registration wherever it is killed. Whoever lists registrations removes what killed
// sessions have left. The files are the user's own; what is in them is believed only
// as far as somebody answers at the socket.
package remote
