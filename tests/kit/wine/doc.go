// Package wine runs Windows programs on Linux, for tests of the Windows host:
//
//	bed, err := wine.Open(ctx)
//	machine, err := bed.Start(wine.Options{Visible: []string{module}})
//	defer machine.Close()
//	out, err := machine.Command(ctx, "/tmp/x/hostfs.test.exe", "-test.v").CombinedOutput()
//
// A [Bed] is wine 10 of Debian trixie without its windows, sounds and browsers: 77 of its 750 modules,
// and a prefix, which is what wine calls drive C: and the registry. [Open] makes it by
// mmdebstrap when there is none (half a minute, 117 MB to download, 145 MB on the disk) and keeps it in
// the user's cache directory, where nothing writes to it any more.
//
// A [Machine] is a copy of the prefix, with namespaces of mounts and processes of its own. It sees the bed,
// its own directory, and the directories that it is given; all of them have the paths that they have
// on the host, as drive Z:. In the folder that [junction.Variable] names is a junction that leads out of it. What runs in it is nobody.
// The network is the host's. Any number of machines
// run at once. A machine starts within half a second, and a program in it within a tenth.
//
// Process 1 of a machine reads a pipe whose other end the caller's process has. So, however the caller ends, the kernel
// ends all processes of the machine, and the mounts go with them. Only after a kill the machine's directory stays.
package wine
