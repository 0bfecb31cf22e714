// Package watcher notices edits from outside one working folder. It announces
// them and keeps caches coherent; it decides nothing: barriers are found when
// an undo is asked for, by comparing stamps.
//
// The bridge calls [Watcher.Watch] before it first lists or looks into a directory, and
// caches nothing there when that fails. The others are watched meanwhile ([Watcher.WatchAll]),
// so that edits in them are told, too. A
// watched directory is an inode: on Linux it is followed when it, or one above
// it, is renamed. One that goes where nobody watches is given up, and the
// bridge forgets what is in it and asks again before its next use.
// What is seen is collected for a moment, then the log is asked who did it, the bridge is told
// to forget what changed, and frontends hear of what somebody outside did. The log knows all that
// runs inside has touched, so this depends on no time, save where it is not sure. When the
// kernel's queue overflows, or more is seen at once than is worth
// looking at singly (our own rm -rf does that), every cache is dropped instead
// and the stamps have the last word.
//
// Our own writes would be events, too, and each would cost the writer a tenth of the write over FUSE, and
// natively as much as a write of a few bytes itself. So a small directory in which the workload writes to a file
// all the time is muted for moments ([Watcher.Busy]; also if the same name is heard of
// for 20 ms, because the mediated bridge sees no writes): names are heard as ever, but
// what happens to its files is found by comparing their attributes in the end. An
// edit from outside there may be announced 50 ms later than elsewhere.
package watcher
