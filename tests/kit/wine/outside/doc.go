// Package outside lets a program of Windows that runs under wine have a program of Linux as its child. Wine starts those, too, but
// nobody can wait for them. So the child is tests/cmd/outside, an .exe, which asks a [Server] on this machine's loopback:
//
//	client -> server   one request: the token, the arguments, the directory; then standard input
//	server -> client   standard output and standard error; at last the exit status
//
// Either end may break the connection: then the server kills the program (not what that has started). If the server's process dies, the kernel does.
// Who knows the token may run the server's one program with any arguments, as the server's user for that.
package outside
