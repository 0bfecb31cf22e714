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
//	journal                 records (package format)
//	blobs/<obj/32>/<obj>    an adopted inode, by the decimal number of its object
//	blobs/<obj/32>/<obj>.<n> content blob n (n >= 1) of the object
//	pack                    the adopted files of an older step, compressed (package store)
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
// Five words (package format): magic "SBID" and, in its upper half, version 2; next
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
//
// # Outputs of commands
//
// This part keeps what the commands of steps wrote to their stdout and stderr, beside the steps' directories.
//
// Format:
//
// In the undo directory:
//
//	output/<id>     of the step with this id (see package store), mode 0600: JSON lines,
//	                one for each command, in the order in which they ended
//
// A line is a [format.CommandOutput]:
//
//	{"command": ..., "started_at": ..., "bytes": n, "left_out": m, "cut": k, "data": base64}
//
// The data is stdout and stderr together, in the order in which they arrived: n bytes, of which m were left out
// after the first k of those that are there. So there are n-m. If a step has no room left, only the number of
// bytes is kept; then m is n.
//
// Bounds:
//
// A line has at most [format.OutputHead] + [format.OutputTail] bytes of data and [format.OutputCommand] of the command's text. A file has at most 1 MiB,
// the directory 64 MiB: if there is more, the files of the oldest steps go.
//
// Kills and damage:
//
// A line is appended by one write, and nothing is synced: a kill or a full disk can leave a part of it. The next line then begins
// on a line of its own, and whoever reads leaves out what is not a line. The history does not depend on any of it: a file that is
// damaged, or not a file of ours at all, is an error or is replaced, and no step is lost.
//
// Trust:
//
// What lies in the directory is taken to be hostile. Files are opened beneath the directory's descriptor, never through a symlink; one that is
// not regular, has another name somewhere or is too large is replaced, not written to. What is read is bounded before it is decoded, and each
// field is checked.
//
// Whose file it is:
//
// A file belongs to a step of the history, an undone step or the open one. [Outputs.Sweep] removes those that belong to none: of steps that
// were pushed out, or that changed nothing. So the log calls it whenever steps go.
//
// A [Outputs] may be used concurrently. Its mutex is held while a file is written; it is a leaf.
//
// # Marks
//
// This part keeps the named places between steps that a person or a client has set.
//
// Format:
//
// The file "marks" in the undo directory is a JSON array of [format.Mark], in the order in which they were
// set. It is written anew as a whole with each change, and appears by a rename. So a kill leaves the marks from before
// the change or those from after it.
//
// Invariants:
//
// A mark stands after the step with the sequence number Seq; 0 is the beginning of the history. If the
// steps that lead back to it go, the mark says so (Lost) before they are gone. The history is whole without
// the marks: if their file is damaged, there are none.
//
// Trust:
//
// The file is taken to be hostile: its size, the number of marks and each name are checked when it is read.
//
// A [Marks] may be used concurrently. Its mutex is a leaf, and is held while the file is written.
//
// # Packs
//
// This part keeps the adopted inodes of one step in one compressed file: whole
// trees with their attributes, hard links and holes.
//
// A [PackWriter] reads each inode once and decodes again what it wrote, because the
// originals are removed afterwards. What may still change, or has a name that the
// writer does not see, is not packed: [ErrKeepRaw]. A [PackReader] loads the index and
// decodes the contents group by group, in any order.
//
// The package does not decide what is packed, and when. It trusts nothing of a file
// that it reads: each frame has a sum, each number a limit, and what is wrong is an
// error, never a panic.
//
// Format:
//
// The file appears by a
// rename when it is complete; the inodes are removed afterwards, and one that is
// still in blobs/ counts instead of its copy. Inodes that a handle is open on,
// that have other names, or that a later step recorded stay in blobs/.
//
//	"SBPACK1\n"
//	groups, one after the other: zstd frames with checksum, of 1 MiB of the
//	  content stream each, the last one shorter
//	index: one zstd frame
//	footer: offset, length and decoded length of the index as
//	  uint64; CRC32C of the index as it lies there, CRC32C of the footer so far,
//	  as uint32; "SBPACKE\n"
//
// The content stream is the data of all files; holes are not in it. The index,
// with numbers and strings as package format writes them:
//
//	uint groups, each: uint length, uint decoded length, uint32 CRC32C
//	uint nodes, each:
//	  uint obj                 of an adopted inode; 0 inside a directory
//	  uint parent              1 + the number of the node that holds it; 0: none
//	  string name              in that directory
//	  uint link                1 + the number of an earlier node that is the same
//	                           inode; then nothing follows. 0: none
//	  uint dev, ino, mode, uid, gid, rdev, int size, mtime, string symlink target
//	  uint xattrs, each: string name, string value
//	  uint segments, each: uint gap since the last one's end, uint length
//	  uint position of its data in the content stream
//	  uint32 CRC32C of its data
//
// Concurrency:
//
// A Writer belongs to one goroutine. A Reader may be used by several: its lock is a
// leaf and is not held while a group is decoded. Whoever wants a group that another
// goroutine decodes waits for it.
//
// # What was seen of a directory
//
// This part is what somebody saw of a directory when its last name was in place: an
// apply looks, and the stamps take it in without looking again.
//
// A sight says nothing of what happened afterwards. It counts only where nobody else
// could change the name in between without being noticed: that is Looked.
//
// # Signs of life
//
// This part keeps a sign of life: when something was last changed by whoever may be killed at
// any moment. After a kill it tells what they wrote themselves from what somebody wrote later. [OwnAlive] tells the same of a
// step that is open, inode by inode; it is in memory only.
//
// Format:
//
// The file "alive" has 24 bytes, three int64 LE: the time of the last change in nanoseconds since 1970;
// 1 if there were writers that do not ask, else 0, and 256 more if that time counts alone, and not that of the journal (who takes
// up a killed step writes to it); the number of the inode that an undo is changing, or 0. It is mapped, so that to
// note a change costs no system call and survives the death of the process. Where the file system maps nothing that is
// shared (9P without a cache), it is written to.
package store
