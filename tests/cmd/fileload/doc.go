// Command fileload makes system calls on one file, many of a kind and nothing else:
// a workload of tests/bench whose time is the calls' own.
//
//	fileload append FILE COUNT            one descriptor, COUNT writes of 16 bytes at its end
//	fileload reopen FILE COUNT            COUNT times: open, append 16 bytes, close
//	fileload open FILE COUNT              COUNT times: open for writing, close
//	fileload look FILE COUNT              COUNT times: open for reading, close
//	fileload connect FILE COUNT           COUNT times: connect to a socket of its own at FILE, which it makes anew
//	fileload scatter FILE COUNT BYTES     COUNT writes of 4 KiB at random places of the first BYTES
//	fileload scatter-sync FILE COUNT BYTES   the same, then fsync
//
// FILE is made if it is not there. The places are the same in each run.
package main
