// Package places keeps what the programs in a jail write to places of the host that
// they must not change: tool caches, and what --overlay names.
//
// Such a place is an overlay in the jail. The host's directory is its lower layer, which
// is never written. Its upper layer lies in a [Store], the user's own, so that what
// was written is there for the next session. [Store.List] and the methods of [Entry] show it,
// put it into the host's directory, or throw it away.
//
// The kernel does not define what happens if two overlays share an upper layer. So a
// store has numbered slots, each with upper layers of its own, and a session has a [Lease] of one: the
// first session gets slot 0, a second one beside it slot 1, and so on. Each is
// kept. A lease is a locked file and the number of the jail's first process: if the
// supervisor is killed, the slot stays taken until that process is gone, too.
//
// The kernel is told not to sync an upper layer, because it would do so at each session's end, and that
// takes longer than the session's start. If the machine goes down while a session has a slot,
// what was written in it may be there in part, so the next lease throws it away.
//
// Where the host has no such directory, and never had one, and nothing is to be hidden, the upper layer is mounted itself: there is nothing to lay it over.
//
// What the kernel has made to work in is left at a session's end, moved away at the next one's start, and removed beside it: nobody waits for that.
//
// What must stay hidden in a place is a whiteout in a layer between the two, the mask. The jail
// makes it anew, in memory, and what an upper layer holds cannot uncover it. A place that goes
// with the session has its upper layer in memory, too.
//
// What lies in an upper layer was written by a hostile workload. No symlink in it is
// followed, nothing of it is executed, and it is put into the host's directory without the bits that
// give rights (set-user-ID and set-group-ID) and never where a secret belongs.
//
// A store is a directory with mode 0700:
//
//	UID/N/lock            locked by who has the slot
//	UID/N/holder          the first process of its jail, and when that started
//	UID/N/NAME/place      what it is, as JSON
//	UID/N/NAME/upper      what was written
//	UID/N/NAME/work       the kernel's; missing where there never was an overlay
//	UID/N/trash           what is removed while a session goes on
//	UID/N/memory          where something is mounted for a moment, in the jail alone
//
// A [Lease] is for one goroutine; a [Store] has no state.
//
// # Mounts
//
// This part reads /proc/PID/mountinfo and finds the other paths at which what is mounted can
// be seen. Who is on the machine may have chosen the names in it. Nothing here has a state.
package places
