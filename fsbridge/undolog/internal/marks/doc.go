// Package marks keeps the named places between steps that a person or a client has set.
//
// # Format
//
// The file "marks" in the undo directory is a JSON array of [base.Mark], in the order in which they were
// set. It is written anew as a whole with each change, and appears by a rename. So a kill leaves the marks from before
// the change or those from after it.
//
// # Invariants
//
// A mark stands after the step with the sequence number Seq; 0 is the beginning of the history. If the
// steps that lead back to it go, the mark says so (Lost) before they are gone. The history is whole without
// the marks: if their file is damaged, there are none.
//
// # Trust
//
// The file is taken to be hostile: its size, the number of marks and each name are checked when it is read.
//
// A [Store] may be used concurrently. Its mutex is a leaf, and is held while the file is written.
package marks
