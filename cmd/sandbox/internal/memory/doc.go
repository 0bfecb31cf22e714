// Package memory keeps the program's memory low as long as what it needs at once is little.
//
// A limit lower than what lives makes the collector run without a pause and free nothing: the
// diff of a step with 100,000 files took six times the processor time. So the limit follows what
// lives: after each collection it is twice that, or what was asked for.
//
// The limit belongs to the process. [Limit] is called once, before the program does its work.
package memory
