// Package day does with commands inside what people do with them in a shell all day, with shells and programs that nobody here wrote:
// pipelines, process substitution, inherited files, Ctrl-C in a loop, programs that ask on the terminal. Each is tried natively first, and
// must then do the same over each bridge. Tools that build and test a project make natively and inside the same files (TestTools).
//
// Programs are started as `box PROGRAM`: a script which, natively, only executes it.
package day
