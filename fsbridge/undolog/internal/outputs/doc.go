// Package outputs keeps what the commands of steps wrote to their stdout and stderr, beside the steps' directories.
//
// # Format
//
// In the undo directory:
//
//	output/<id>     of the step with this id (see package store), mode 0600: JSON lines,
//	                one for each command, in the order in which they ended
//
// A line is a [base.CommandOutput]:
//
//	{"command": ..., "started_at": ..., "bytes": n, "left_out": m, "cut": k, "data": base64}
//
// The data is stdout and stderr together, in the order in which they arrived: n bytes, of which m were left out
// after the first k of those that are there. So there are n-m. If a step has no room left, only the number of
// bytes is kept; then m is n.
//
// # Bounds
//
// A line has at most [base.OutputHead] + [base.OutputTail] bytes of data and [base.OutputCommand] of the command's text. A file has at most 1 MiB,
// the directory 64 MiB: if there is more, the files of the oldest steps go.
//
// # Kills and damage
//
// A line is appended by one write, and nothing is synced: a kill or a full disk can leave a part of it. The next line then begins
// on a line of its own, and whoever reads leaves out what is not a line. The history does not depend on any of it: a file that is
// damaged, or not a file of ours at all, is an error or is replaced, and no step is lost.
//
// # Trust
//
// What lies in the directory is taken to be hostile. Files are opened beneath the directory's descriptor, never through a symlink; one that is
// not regular, has another name somewhere or is too large is replaced, not written to. What is read is bounded before it is decoded, and each
// field is checked.
//
// # Whose file it is
//
// A file belongs to a step of the history, an undone step or the open one. [Store.Sweep] removes those that belong to none: of steps that
// were pushed out, or that changed nothing. So the log calls it whenever steps go.
//
// A [Store] may be used concurrently. Its mutex is held while a file is written; it is a leaf.
package outputs
