// Package answers keeps what a person has decided beyond the session in which they
// were asked: for one project (a working folder), or for everything of the user's.
//
// A [Store] is a directory, and each answer is a file in it. The file's name is the hash
// of what the answer is for, so that a question is one or two files opened by name, and
// two sessions write at the same time without a lock. A file is replaced as a whole.
// The answer for the project comes before that for the user. What runs inside never
// sees the directory: it lies in the state directory, which is hidden there.
package answers
