// Package step runs the life of a command's step over all writable working
// folders of a session: it reserves one id for all of them, assigns it, waits
// for quiescence when the command has ended, and closes the step everywhere;
// or, when a safeguard was denied or an Interceptor crashed, lets its mutations
// fail, ends the command and rolls it back everywhere.
//
// A folder opens the step in its log only when something is first changed
// there, so a step costs nothing in folders it does not touch.
//
// # The queue
//
// What opens a step, or must not meet one (an undo), needs a [Lease]. There is one;
// the actor gives it away in the order in which it was asked for ([Open]), and keeps
// those who wait, up to [MaxQueue]. A write of a frontend takes part in the open
// step of a command instead of waiting for its end; the step closes when all that
// took part have left.
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
