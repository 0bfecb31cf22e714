// Package layer reads one step back: which objects it knows, which names it touched, and
// where the bytes lie that make the folder again what it was before.
//
// [Read] begins to read a step directory on other goroutines, and [Load] makes a [Layer]
// of it. A layer joins four things: the journal's records, the pack, the blobs, and the
// inode numbers of today. Whoever applies a step and whoever only looks at the past use the
// same layer. To load it changes nothing, in the folder or in the log.
//
// Invariants:
//   - A [Node] has the number that its inode has now. A number that died with its inode
//     (packed, gone, or freed and given away) is not in ByHost.
//   - An object that is both in a blob and in the pack is the one in the blob.
//   - Binds are sorted by name. An untouched object is a child of its parent instead.
//
// The fields of a node that say what an apply found out or decided lie here so that there is
// one index of nodes and not two. A loaded layer leaves them zero, except for those that
// [Layer.FindOwn] sets.
//
// What is read is hostile: its records were checked by package format, its groups have
// sums, and the contents that it names are looked for before an undo begins. What is
// wrong is an error that wraps base.ErrDamaged. A layer is used by one goroutine; the
// functions that write content or metadata to a descriptor may run on several.
package layer
