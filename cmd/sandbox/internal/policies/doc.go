// Package policies has the commands of 'sandbox policy': they show the rules of
// actors/approval, check their files, and change those of the user and of the project.
// What is shown may come from a file that somebody else wrote: it is printed quoted.
//
// They ask no session. A session that runs reads the files again when they have changed.
package policies
