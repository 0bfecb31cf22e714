// Package gitignore tells what the .gitignore files of a folder leave out, as git
// does: a property test compares it with git (fsbridge/files). For searches, which leave
// out what is ignored, and for the undo log, if it is not to keep that.
//
// A .gitignore file is hostile input: matching takes no longer than its size times the
// path's, and a pattern that makes no sense matches nothing.
package gitignore
