// Package alive keeps a sign of life: when something was last changed by whoever may be killed at
// any moment. After a kill it tells what they wrote themselves from what somebody wrote later. [Own] tells the same of a
// step that is open, inode by inode; it is in memory only.
//
// # Format
//
// The file "alive" has 24 bytes, three int64 LE: the time of the last change in nanoseconds since 1970;
// 1 if there were writers that do not ask, else 0, and 256 more if that time counts alone, and not that of the journal (who takes
// up a killed step writes to it); the number of the inode that an undo is changing, or 0. It is mapped, so that to
// note a change costs no system call and survives the death of the process. Where the file system maps nothing that is
// shared (9P without a cache), it is written to.
package alive
