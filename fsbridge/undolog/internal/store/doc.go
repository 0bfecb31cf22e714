// Package store is the undo directory: what lies where in it, the numbers that are
// never given twice, the directories of steps and the blobs in them, and the inode
// numbers that changed.
//
// A [StepDir] is an open directory of a step. It hands out the directories of its
// blobs, reads contents back and finds retained inodes. A [ContentWriter] is the way
// in: it captures a range of a file into the journal, or the whole file as a clone.
// [Links] counts the names that the log has of a file, so that a bridge can leave
// them out of its count. [Renumbering] tells a step which number an inode has today.
//
// The package does not know what a step is for, nor which steps there are.
//
// # Trust
//
// Everything is reached by directory descriptors and single path components, never
// through a symlink, and is taken to be hostile when it is read.
//
// # Directory layout (version 3)
//
//	version                 "3\n"
//	lock                    JSON of [Owner], held with flock(LOCK_EX)
//	identity                JSON of [Identity]: which log this is, and whose
//	volumes                 JSON: the log's numbers for file systems (below)
//	ids                     the counters, 48 bytes (below)
//	wal/in_progress/        the open step; absent while nothing is captured
//	wal/rollback.new/       an undo or redo that has not begun
//	steps/<id>/             a closed step, <id> its decimal step id
//	redo/<id>/              a step that was undone and can be done again
//	trash/<n>/              things to delete; emptied in the background
//	remap                   inode numbers that changed (below)
//	rollback                marker of an undo or redo under way
//	together                steps that are being undone or done again, all or none
//	marks                   JSON: named places between steps, a list of [Mark]
//	reserve/                space and inodes for when the disk is full (Reserve)
//	stamps                  how the steps left their files, and barriers
//
// and in each step directory
//
//	journal                 records (package journal)
//	blobs/<obj/32>/<obj>    an adopted inode, by the decimal number of its object
//	blobs/<obj/32>/<obj>.<n> content blob n (n >= 1) of the object
//	pack                    the adopted files of an older step, compressed (package pack)
//	summary.json            JSON of [Entry], without barriers; "commands" and
//	                        "command_count" only if several ran in the step,
//	                        "group" and "group_start" only if it is part of a run;
//	                        "journal" {"bytes","tick"}: how long the complete journal
//	                        is of which the first record has that tick. Logs of
//	                        older programs lack it
//	paths                   zstd stream of JSON lines, one [Affected] each
//
// The version rises when a program of the version before could misread a log, or harm it.
// It does not rise for what such a program may leave out: a member of JSON, or
// a file below the undo directory. Then a log without it opens as before.
//
// Directories are mode 0700, files 0600. A step directory appears under its
// final name by one rename of a complete directory.
//
// # ids
//
// Five words (package wire): magic "SBID" and, in its upper half, version 2; next
// command id, next ambient id (both counted upwards from 1; ambient ids are
// negated), next seq, next barrier id. It is rewritten in place by one pwrite. If it is
// damaged, the counters restart 1,000,000 above the largest number found in
// any step directory.
//
// # volumes
//
// Wherever a dev stands in a record, it is a number of the log's own: 0 is the working
// folder's file system, 1 the log's, if that is another one, 2^32 and above what is mounted
// in the folder, by the file {"old_roots","others"}. others says of each number which file system it is
// (by its own id), and its device number with the mount and the boot in which it has that; a
// number of which nothing is there names no inode. Version 2 had device numbers; when a log of that
// version is opened, it becomes one of version 3, and old_roots lists those that its steps
// knew the folder by.
//
// # made and remap
//
// "made" in a step directory tells which objects got new inode numbers during
// its apply, before they became visible. Records of five words:
// obj (bit 63: a copy of what was there; bit 62: which is there still, by
// another name; 2^26: something inside an adopted directory), old dev, old ino, new dev, new ino. "remap" in the undo directory tells
// all other record sets: six words: birth, at, old dev, old ino, new dev, new ino. It says that what had the old number
// when the records born at birth were begun has the new one since at. Moments
// are seqs; a record set is born at its "tick", or else its seq, and entries
// concern those born before birth. A torn end of either file is ignored.
//
// # Locks
//
// All locks are leaves: StepDir's, which is held while the function that gets a
// directory of blobs runs; Links', which is held while a name of the log's is added
// or removed; those of IDs and Renumbering.
package store
