// Package tap is a jail's network card: a TAP device of the kernel in the jail's
// network namespace, whose other end is a cable of package network.
//
// Whoever is born in that namespace opens [Path] there, makes the device with the
// requests that this package writes ([Attach], [Messages]), and hands the descriptor
// to the supervisor. The namespace is its own, so that this takes no right on the
// host but to open the device. [New] makes a cable of the descriptor.
//
// Before each frame stands a header (IFF_VNET_HDR) by which both ends spare
// each other the checksums; frames are not joined or cut, as the MTU is large.
//
// # Trust
//
// Inside nobody has a capability: the device's address, its routes and its state
// stay as they were made, and nobody gets a raw or a packet socket. Nothing relies
// on that: frames are as hostile as a virtual machine's, and package network checks
// them.
package tap
