// Package pidfiles finds the files of a folder that name a live process by its number: pid files (postmaster.pid, server.pid), locks of Emacs, Vim and browsers.
//
// A program that is started on such a file asks whether the process is there. In a jail numbers are others, so nobody has that one, and the program takes the file
// for stale: a second database server would run on the data of one outside. Whoever answers for the kernel inside (fsbridge/mediate) asks [Names];
// 'sandbox doctor' shows [Live].
//
// A file counts if its process is alive, is the file's owner's, is in the caller's namespace of processes, is no thread of the kernel, and began before the file was written.
// Files are hostile input: what runs inside can write any number and any time. So Names also wants the process to work in the folder: what it tells then is no more than
// that somebody does.
//
// Searches are bounded in names. There is no state.
package pidfiles
