// Package children looks at the processes of a pid namespace from outside: whether the first has children, how
// many there are, and which numbers they have here. It locks one mutex, and trusts the kernel
// alone: names and numbers in /proc are the kernel's, and a process may end meanwhile. On other systems than Linux it is empty.
package children
