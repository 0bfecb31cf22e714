// Package gitfiles reads what git leaves in a folder: the rules of .gitignore files, and the index. It runs no git, and trusts nothing that it reads.
//
// # Ignored paths
//
// This part tells what the .gitignore files of a folder leave out, as git
// does: a property test compares it with git (fsbridge/files). For searches, which leave
// out what is ignored, and for the undo log, if it is not to keep that.
//
// A .gitignore file is hostile input: matching takes no longer than its size times the
// path's, and a pattern that makes no sense matches nothing.
//
// # The index
//
// This part tells what an index file of git says from what git keeps about its looks. 'git status', which editors
// and prompts run all the time, writes the file anew when times or inode numbers of files have changed: the entries' names,
// modes, object ids and flags stay. The file is hostile input: all lengths are checked, nothing is allocated by what it says.
package gitfiles
