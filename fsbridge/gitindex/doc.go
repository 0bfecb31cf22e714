// Package gitindex tells what an index file of git says from what git keeps about its looks. 'git status', which editors
// and prompts run all the time, writes the file anew when times or inode numbers of files have changed: the entries' names,
// modes, object ids and flags stay. The file is hostile input: all lengths are checked, nothing is allocated by what it says.
package gitindex
