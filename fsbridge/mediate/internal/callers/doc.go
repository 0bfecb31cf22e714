// Package callers remembers the threads of a guest that have called lately: by their directories in
// /proc, and those that ask about descriptors by a pidfd, too. It knows their umasks, and looks at their
// descriptors.
//
// A number may be another thread's by now. A directory of /proc and a pidfd lead nowhere once their thread has
// gone, and never to another. So what they say is the caller's if it still waits afterwards.
//
// Locks: Table.mu, a leaf.
package callers
