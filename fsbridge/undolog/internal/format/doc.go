// Package format has the types of the log and how they lie on the disk: steps, limits and errors, the framing of records, and the journal.
//
// # Words
//
// This part holds the words that all packages of the undo log share: what a
// step, a history entry and a barrier are, the limits, the policies and the
// errors that a caller tests for.
//
// The package undolog gives them to its callers under the same names. Nothing
// here does anything, so nothing is locked; all values may be copied.
//
// # Pieces of files
//
// This part has the pieces of which the undo log's files are made: numbers,
// strings, frames with a checksum, and records of a fixed size.
//
// In all files of the log, "uint" is an unsigned varint (7 bits a byte, the low
// ones first), "int" a zigzag varint, and "string" is a uint length and that many
// raw bytes. Fixed numbers are little endian. Every sum is a CRC32C (Castagnoli).
//
// A frame ([BeginRecord], [EndRecord], [RecordHeader]) is
//
//	length  uint32   of the payload
//	sum     uint32   of the payload
//	payload
//
// Words ([AppendWords], [Words]) are some uint64, then the sum of these bytes as
// uint32 and four zero bytes.
//
// What is decoded is taken to be hostile: a length is compared with what is there
// before anything is allocated, and whatever is wrong is an error that wraps
// [ErrMalformed], never a panic.
//
// # The journal
//
// This part writes and reads the journal of one step: records that say what
// the folder was like when the step began.
//
// A record is about an object (an inode) or about a binding (a name in a
// directory), never about a path. All records are "set to" and for each key the
// first one wins. So a journal can be read in one pass into a [RecordSet], and to apply
// it twice does what applying it once does.
//
// A [Batch] collects the records of one operation, and a [Writer] appends them
// with one call. [Writer.Append] returns when the records survive the death of
// this process; [Writer.Sync] returns when they survive a power failure, if the
// log promises that. [ScanJournal] and [ReadJournal] trust nothing of what they read.
//
// The package knows nothing of why something is recorded: that is the business of
// those who capture and apply.
//
// Format:
//
// The file starts with the 8 bytes "SBUNDO1\n". Records follow:
//
//	length  uint32   of type and payload, 1 .. 16 MiB
//	crc     uint32   CRC32C of type and payload
//	type    uint8
//	payload length-1 bytes
//
// Each batch of records is appended by one write(2), or stored into a mapping.
// The file may end in zeros: room for records that was allocated in advance; a
// closed step's does not. A tail that is shorter
// than its length says, or whose sum is wrong with nothing valid after it in
// the file's length, is torn: the bytes from there on are cut. Since a record
// is written before what it announces is done, what is cut was not done.
//
// Numbers and strings are those of package format. Numbers of objects are
// uints; object 1 is the root of the working folder, 0 means none. They count
// the objects of one journal.
//
//	1 step       JSON of {"id","seq","started_at","type","command","argv","dir","tick"}:
//	             the first record of every journal
//	2 object     uint obj, uint flags, uint dev, uint ino, uint parent, string name,
//	             [flags&retained: uint seq, uint obj of the older step's blob]
//	             [not flags&created: uint mode, uint uid, uint gid, uint rdev, int size,
//	             int mtime (ns, as hostfs.Nanoseconds says), uint nlink, string symlink target]
//	             flags: 1 created, 2 retained
//	3 xattrs     uint obj, uint count, count times (string name, string value)
//	4 binding    uint dir, string name, uint old
//	5 unbind     uint dir, string name
//	6 content    uint obj, uint off, uint length, uint encoding, and
//	             encoding 1 (raw), 2 (zstd): string data
//	             encoding 3 (hole): nothing
//	             encoding 4 (whole): uint n of the content blob, a clone or a copy of the whole file
//	7 retain     uint obj
//	8 freed      uint obj
//	9 gone       uint obj
//	10 unprotected  nothing
//	11 lost      uint obj
//
// All records are "set to": they say what was there when the step began. For
// each key (object; object's xattrs; dir and name; byte of an object) the first
// record wins, and unbind forgets the key.
//
//   - object: parent and name are its binding when the step began; a parent of
//     0 with flag retained says that it was in the blob of an older step (or
//     anywhere inside it, if that is a directory),
//     without that flag that it had no name, or (in an inverse: of a file in the
//     target's blobs) one that no record knows. An object's ancestors are recorded
//     before it. For a created directory, parent and name are where it was when it
//     was recorded, and dev and ino are there so that it can be found; only
//     created directories that hold pre-existing objects are recorded.
//   - xattrs: written before the first change of content or metadata, even if
//     there are none. Without such a record neither mode, owner, times nor
//     attributes of the object changed, save the mtime of directories.
//   - binding: name in dir was bound to old, or to nothing (0). Bindings inside
//     created directories are recorded only where a recorded object was moved.
//   - unbind: the operation that the binding record announced failed because
//     somebody outside had taken the name: it is theirs.
//   - content: the bytes [off, off+length) of the object. The file's size is in
//     the object record; bytes of no content record did not change, or did not
//     exist. Ranges of one object do not overlap, and a range of data is at
//     most 256 KiB long. Content blobs are reflinks, and copies of large files for
//     which somebody waits. What else is copied
//     goes into the journal.
//   - retain: the inode itself is moved or linked into blobs/ as soon as this
//     record is written. It keeps its content, metadata and number there, and
//     handles that are open on it can still change it; such changes are
//     captured as changes of this object.
//   - freed: the inode could not be retained and lost its last name. Content and xattrs are complete in
//     this journal; the inode may be gone. For a directory: it was empty.
//   - gone: an object that was freed does not exist any more, and another inode
//     has its number.
//   - unprotected: a file that can be changed without asking could not be captured; captures end here.
//   - lost: the content of the object would be more than the step may keep. It is not put back; what was
//     captured of it before does not count.
//
// Concurrency:
//
// A Writer's methods are safe for concurrent use; its lock is a leaf. Several
// calls of Sync share one fdatasync. A Batch belongs to one goroutine. A Set may be
// read by several.
//
// Small records are stored into a mapping of the file beyond its end (see the type
// room), because that takes a tenth of the time of a write(2). A closed journal
// ends with its last record.
package format
