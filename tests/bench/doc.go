// Bench measures what the bridge, the log and the jail cost, always against
// something else in the same run, and prints ratios beside their goals.
//
//	make bench
//	go run ./tests/bench [-json FILE] [-only REGEXP] [-rounds N]
//
// The tree is a copy of $(go env GOROOT)/src on a fresh ext4 image on a loop
// device in /dev/shm, where the program runs as root; else in a temporary
// directory. Sides take turns in each round, a time is the median of the rounds and
// a ratio the median of the rounds' ratios, with their quartiles; memory is touched
// before what is measured. Everything is gone at the end. What a side needs and is not there
// (bwrap, libfuse's sources) leaves its rows out, and the table says so. Nothing
// here fails for being slow: it is a table to read, not a test.
//
// The group mediated has three sides that run the same scripts as the same ordinary
// user: native (no jail), and a jail's session behind the mediated bridge and behind
// FUSE.
//
// The group 9p boots two guests, which need the images of the tests (tests/kit/guestimage). In one
// the folder is served over 9P, as on hosts without virtio-fs, and there are the guest's own disk
// and memory; in the other over virtio-fs. All four take turns.
package main
