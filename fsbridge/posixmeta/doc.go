// Package posixmeta lets a file system that is not POSIX (NTFS) hold a folder
// of which a Linux guest believes that it is: names that Windows refuses, names that differ
// only in case, and modes, owners and symlinks, which are kept beside the
// folder. Nothing in it asks for Windows: --posix-metadata uses it on every host.
//
// [Overlay] is what fsbridge/vfs.Tree, and with it every bridge, attaches. The host's
// files stay plain: a symlink, FIFO or socket is a regular file there (a symlink's
// holds the target, as Git for Windows has it), and none of its modes is the guest's.
//
// # Names
//
// [CheckName] says what Windows would not take, or would take for something
// else: reserved characters and device names, a dot or space at the end. It is refused
// (EINVAL).
//
// [Index] finds names that a case-insensitive directory takes for one: the
// second is refused (EEXIST) and never clobbers the first. Where it is not known how the file
// system folds a character, it counts as the same: refusing too much loses
// nothing.
//
// # Metadata
//
// [Store] maps a path, relative to the folder, "/"-separated, to an [Entry] in a bbolt
// file in the undo directory. What has none gets a default ([DefaultMode]). It follows the
// bridge's renames and removals, but not those of others: what somebody renames on the host
// has its default again, and a file that takes the name of another takes its mode (an
// editor that saves by a rename keeps it so). The entry of a symlink, FIFO or socket does
// not count where the file on the host is not as long as its target. Hard links
// share their entry when they are made; later changes by one name are not seen by the other. A
// file without a name has a default.
//
// # Undo
//
// Each change notes, at the first touch in the step that is open, what was there, in the
// transaction of the change itself, and between the Interceptor's Begin and End, so that the
// step cannot end meanwhile. The undo log itself knows nothing of it. Whatever happens to
// that (an undo, a redo, a rollback, the recovery of a killed program), afterwards
// [Store.Settle] is told which steps are done and which undone, and brings the entries there:
// set to what was noted, with the inverse noted. So there is one truth, the log, and a
// program that is killed between the two is as good as one that is not: the next start
// recovers the log and settles. It runs while no operation is under way. [Store.Restore] does
// the same for single paths.
//
// Each step that changes metadata is one of the undo log's, too: the bridge's operations are
// captured as ever, also where the host's file does not change.
//
// # Crashes
//
// A killed process loses nothing: bbolt's pages are written before a call
// returns. For power loss too, set [Options.Sync], at a price of an fsync per
// change; else they are synced when the store is closed.
package posixmeta
