// Package window gives each session a part of this machine's ports, or a loopback address of its own, so that programs of several sessions that listen at the same port are told apart.
//
// A [Window] is allotted to one session, and no other session in the same network namespace of the host gets a part of it, whoever its user is: each port, and each address, is held by an abstract
// unix socket with its name. The kernel knows such names by network namespace, as it does ports, and forgets them when the process ends, however it ends. Other programs know nothing of
// them: of a window that is not named by the user, ports that somebody has are left out; one that is taken later is told of when a program inside wants it.
//
// What a port inside is reached at is decided once, when it is first asked for, and stays so until the window is closed: a server that starts again is reached where it was.
package window
