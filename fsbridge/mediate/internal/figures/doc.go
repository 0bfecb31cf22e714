// Package figures counts what a server of notifications does. Everything is safe for
// concurrent use, and nothing locks.
//
// # What a mediated call costs
//
// Measured with tests/bench in a nested virtual machine with two processors, as root for a workload of another number.
//
// A bare round trip (a program in C that answers CONTINUE) takes 3 us of the server's processor and 2.5 of the caller's; with
// a descriptor handed over 5.5 and 5: to wake and to switch, twice. So an open is never less than 11 us beyond native. (To wake the other
// processor takes 24 us each way here: a server that polls on a processor of its own is no way out.) The floor of a
// workload is its native time with a bare round trip for each of its calls, and one more for each descriptor:
//
//	                          calls   of them  native  mediated  ratio  floor  goal  server's
//	                                  opens    ms      ms                            us a call
//	untar                     25,600  11,500   405     1,210     3.4    1.5    2.2   38
//	cp -a                     41,100  11,500   464     1,560     3.4    1.6    2.2   30
//	checkout of all files     12,800  11,500   939     1,525     1.65   1.1    1.3   60
//	rm -rf                    12,800  0        264     486       1.9    1.3    1.5   37
//	sed -i, 600 files         3,600   600      105     230       2.0    1.2    1.8   46
//	SQLite, synchronous off   4,000   2,000    137     246       2.1    1.2    1.4   34
//	open, append, close       10,000  10,000   32      367       12     4.3    4     24
//	open, close               10,000  10,000   22      330       15     5.8    -     24
//
// # What is native costs, too
//
// Reading makes no calls (git status 3), and yet find over 11,500 files in 1,324 directories took 1.2 to 1.3 times as long as
// natively, git status 1.2, find with cat 1.1 to 1.15; without the first of these causes find takes 1.19 (49.5 and 61.6 ms), find with cat 1.01, git status
// 1.12 to 1.26 on a noisy machine. Sampled with perf on both sides, and measured without each in turn:
//
//   - Landlock, 0.15 us for each open (hypervisor/jail). It took 2 us for each open, which takes 2.2 natively with its close; 0.13 of find, 0.1 of git status:
//     the right to cut a file off is decided at each open, also for reading, so the kernel goes up from the file to the root. Now the
//     bridge alone keeps files from being cut off (package mediate, Granted descriptors). Behind Landlock, without a jail, that right stays.
//   - inotify: each directory has a mark of the watcher (actors/watcher), and each open, read and close in one looks at it: 0.06 of find.
//   - seccomp: 0.03 us a call (getppid takes 0.12), for calls that the kernel allows without the filter, too: 0.05 of find, 0.03 of an lstat's
//     1.37. A second filter costs nothing more.
//   - The owners of a mapped mount: 0.01. A mount that is read-only and a namespace of users: nothing that can be measured.
//
// 200,000 appends of 16 bytes are one call and 0.65 us each natively. An event of inotify is 0.7 us, so the watcher mutes a directory that is busy:
// then it costs nothing, and 2,000,000 appends are 1.11 (seccomp). Until then, some 20 ms, each takes twice as long: 1.15 to 1.25
// for 200,000, which are done after 130 ms.
//
// git add and commit of all files take 38,500 calls (12,600 opens), 42 us of the server's each (its threads of the background
// included): 2,460 ms natively, 3,870 mediated, 1.56. npm ci takes 485 and 614 ms, 1.16, of which 168 are the server's, opens for the most
// part. The floor of both is that of untar: a new file has to be made by us, as long as natively, beside a round trip and a descriptor.
//
// # Several threads
//
// They are answered by one worker as long as a worker that is woken comes late (notify.Relay), as here: 6,400 times to make, append to
// and remove a file take 720 to 740 ms, by 1, 2, 4 and 16 threads (natively 173, 95, 100 and 103). Workers that wake each other took
// 1,000 to 1,370 from two threads on. So several threads are as fast as one here, and no faster: the server, 37 us for each of the 19,200
// calls, is the floor.
//
// # Where the server's time goes
//
// Sampled with perf, with the kernel's stacks. A new file of an archive, 40 us: 15 to look for it and to make it, which takes as long
// natively; 6 to hand the descriptor over, of which 3 are the kernel's; 8 to open it once more on the mount that shows the workload's owners (two
// changes of capabilities 2.5, open 2, look, close); 5 to find its directory; 1.6 to read the path. The log takes 1, since a file in a new
// directory has no record. Besides, 5 to receive and to answer. An unlink, 21 us: 9.5 to move the file into the log (natively, removing takes as long), 2.5
// to look before and after, 2 to find the directory, 1.5 to read the name, 2 for the record. Times of a descriptor, 8 us: 2 to set them, 2 to read
// them, 2 to find out what the descriptor is, 1 to open the file by its name. All of that takes up to twice as long right after a switch as in a loop.
//
// By itself (in a loop, quiet) a change of credentials (setfsuid, capset) takes 1.2 us, a look at what a link of /proc leads to 2.4, an open with its close
// 1.1, a copy of a descriptor with its close 0.8 (kcmp, to keep a copy instead, 1.0), a change of a thread's processors 0.8. As the same user there are
// no changes of credentials, and files are opened once and not twice.
//
// To know working directories instead of looking at them would save 2.4 us in each call by a relative path, 28 ms of an untar's 1,210 and 92 ms of
// a git add's 4,000: 2 %. For that the filter would have to send chdir, fchdir, unshare with CLONE_FS and clone without it, and
// whoever executes as another thread than the first takes its number with a directory of his own. It is not done.
//
// Counted with strace on the leader, as root: a new file in a directory one name away takes 24 system calls while one caller makes several,
// an unlink 10, utimensat of a descriptor 14. A new file takes some 5 more calls later, of another thread: the lease that tells
// whether it is still written to.
package figures
