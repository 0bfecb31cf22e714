// Package texts is about text that people, or other programs, have written: names and messages that must not act on a terminal,
// patterns of paths, and differences between files. It uses no file and keeps no state.
//
// # Text of others, made fit to be read
//
// This part makes texts of others fit to be read: names of files, command lines, messages. What a program
// inside can choose must not act on a terminal, look like another text, or push the rest of a question off the screen.
//
// Everything that a person reads goes through it: questions, tables, logs, notifications. What always holds of a
// result: it is valid UTF-8 on one line, each of its characters is [Clean], and it is at most a few times [Most] bytes long.
// Nothing is kept, nothing is trusted.
//
// # Patterns
//
// This part is the one syntax of patterns for paths: in searches, in
// safeguards and in the settings of the classifier.
//
//   - any text without a slash
//     **       any number of path elements
//     ?        one character that is no slash
//     [a-z]    one of these characters; [!a-z] and [^a-z] another one, no slash
//     {a,b}    one of these alternatives, which are patterns
//     \        the next character itself
//
// It is doublestar (github.com/bmatcuk/doublestar) with two additions: a negated
// class never matches a slash, and the alternatives of a pattern are limited, so
// that a match takes bounded time whoever wrote the pattern.
//
// The functions are pure and safe for concurrent use. A pattern that has not been
// checked may be matched; if it is malformed it matches nothing or little.
//
// # Differences
//
// This part compares two texts line by line and writes the difference as
// hunks of a unified diff, which git and patch can apply.
//
// The shortest list of edits is found by Myers' algorithm. Its work is bounded: if
// two texts have too little in common, what lies between their common ends is shown
// as replaced. Such a diff is longer than need be, and still right. Memory grows with
// the size of the texts, so that callers bound what they pass.
//
// All functions may be called by several goroutines at once. Nothing is trusted in
// the texts: any bytes may be compared.
package texts
