// Package printable makes texts of others fit to be read: names of files, command lines, messages. What a program
// inside can choose must not act on a terminal, look like another text, or push the rest of a question off the screen.
//
// Everything that a person reads goes through it: questions, tables, logs, notifications. What always holds of a
// result: it is valid UTF-8 on one line, each of its characters is [Clean], and it is at most a few times [Most] bytes long.
// Nothing is kept, nothing is trusted.
package printable
