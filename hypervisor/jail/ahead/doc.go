// Package ahead makes what a jail needs whatever its configuration says: the guest's program in a memfd, what the kernel
// lets a mediated bridge do, and the user namespace of the folders' mounts.
//
// None of it depends on the log or on the view, and each takes as long as a tenth of a whole start. So it is made beside what
// the program does first ([Preparation.Begin]). Each part is made once and then kept; an error is kept, too, and said to whom needs the
// part. Nothing of it is visible to anybody else.
package ahead
