// Package pack keeps the adopted inodes of one step in one compressed file: whole
// trees with their attributes, hard links and holes.
//
// A [Writer] reads each inode once and decodes again what it wrote, because the
// originals are removed afterwards. What may still change, or has a name that the
// writer does not see, is not packed: [ErrKeepRaw]. A [Reader] loads the index and
// decodes the contents group by group, in any order.
//
// The package does not decide what is packed, and when. It trusts nothing of a file
// that it reads: each frame has a sum, each number a limit, and what is wrong is an
// error, never a panic.
//
// # Format
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
// with numbers and strings as package wire writes them:
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
// # Concurrency
//
// A Writer belongs to one goroutine. A Reader may be used by several: its lock is a
// leaf and is not held while a group is decoded. Whoever wants a group that another
// goroutine decodes waits for it.
package pack
