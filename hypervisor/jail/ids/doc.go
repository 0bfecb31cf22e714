// Package ids reads and writes the maps of user namespaces (uid_map, gid_map). It trusts what
// the kernel writes, and has no state.
package ids
