// Package step runs the life of the commands' steps over all writable working
// folders of a session: it reserves one id for all of them, assigns it, waits
// for quiescence when the command has ended, and closes the step everywhere;
// or, when a safeguard was denied or an Interceptor crashed, lets its mutations
// fail, ends the command and rolls it back everywhere.
//
// A folder opens the step in its log only when something is first changed
// there, so a step costs nothing in folders it does not touch.
//
// For example, `sandbox run -- make`: the command waits until it has the folders (the queue), gets step 7, runs, and ends. When nothing inside has changed
// anything for a moment (quiescence), step 7 is closed in each folder, and `sandbox undo` can take it back.
//
// # The queue
//
// What opens a step, or must not meet one (an undo), needs a [Lease]. One
// step, or one undo, has the folders at a time; the actor gives them away in the order
// in which they were asked for ([Open]), and keeps those who wait, up to [MaxQueue].
// A write of a frontend takes part in the open step of a command instead of waiting
// for its end; the step closes when all that took part have left.
//
// # Commands at the same time
//
// A command that shares ([Open]) takes part in the open step of other commands, up to
// [Options].Commands at once. The step ends when its last command has. Who ends before
// is answered at once, without entries. Only the limit, or a step that is about to
// end, makes such a command wait: never a command that runs, nor somebody who waits
// for one. A step that fails ends all its commands, and is rolled back when they have
// ended; all who had not been answered are told.
//
// When the actor crashes, everybody who waits is told so. Who has the lease keeps it
// until he leaves ([Holder]): his command may still be writing, and must not write
// into somebody else's step.
//
// # Quiescence
//
// A step is not closed while requests are in flight or held, nor within the
// idle time (100 ms) of the newest mutation, unless the caller knows that no
// process is left that could write. After the maximum (2 s) it is closed
// anyway; held operations are waited for without limit, because a decision has
// a deadline of its own. What is written later belongs to an ambient step.
// Pages in caches are the business of the folder's fence.
package step
