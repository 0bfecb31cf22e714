// Package user starts programs as an ordinary user of the machine, for tests
// of what works without root.
//
// The user is called [Name]; it is made by useradd if it is missing, and stays.
// The program runs in a private mount namespace in which
//   - /dev/fuse and /dev/net/tun are nodes that everybody may open, as on ordinary
//     distributions, where the machine's own are not;
//   - the module that holds the working directory, and the program itself, can
//     be read whatever the modes of the directories above them: they are bound
//     below a directory of their own.
//
// Nothing of that is visible outside of it, and nothing remains of it.
package user
