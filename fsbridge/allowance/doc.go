// Package allowance bounds how much larger the working folders of a session may become, all files together.
//
// What is counted are the blocks of what lies in the folders, at least 4 KiB for each name, and of files that were
// removed and are still open. A count at the start is what they may be larger than. From then on each operation that a
// bridge performs adds what it can take at most ([Folder.Guard]). When the sum reaches the limit, the folders are
// counted again, so that what was overwritten, removed or undone is given back. If they are as large as they may be, the
// operation fails with EDQUOT, and nothing of it is done. So the limit is not exceeded by what runs inside.
//
// This holds for a bridge that performs each write by itself. One that hands out descriptors ([fsbridge.Granter]) does
// not see the writes: whoever composes a session with a limit does not choose it.
//
// What somebody outside adds to the folders counts as well, from the next count on. Nothing is done while nothing is
// written. An operation may wait for a count, which follows the one before after five times its duration, 2 seconds at
// most.
//
// Methods are safe for concurrent use. mu is held while the folders are counted, and is taken before nothing else; sums
// are atomic. What runs inside is hostile: names and depths are bounded by [hostfs.Root.Walk]. The kernel is trusted; a
// file system that tells late how many blocks a file has (ZFS) is believed late.
package allowance
