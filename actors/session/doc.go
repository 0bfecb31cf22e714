// Package session is the root of a session's actors: its state, its settings, who
// decides, its events, and the frontends that are connected to it.
//
// [Actor] is the session itself. It spawns the session's children and owns its
// state (idle, starting, active, stopping, failed), the safeguards' settings and
// the list of those who decide. [Group] is a parent and nothing else: one working
// folder's actors. [Frontends] is the parent of connections, which come and go.
//
// # The snapshot
//
// What is asked all the time (a status, the origin of a step, the settings that
// hold now) is asked of nobody: a [Board] publishes it as one immutable
// [Snapshot]. Each field has one writer. State, Safeguards and the deciders are
// the session actor's; Step and Newest the steps actor's; Pending the safeguard
// actor's. What an actor has published is true before it answers whoever asked for
// the change.
//
// The snapshot is also what an actor recovers from. A session actor that crashed
// begins with the state that was published last, not with idle: its children have
// been replaced by then, and what they report must find the state that it
// changes.
//
// # Locking
//
// The board's lock and the bus's are leaves: nothing is called while they are
// held. Loading a snapshot takes no lock.
package session
