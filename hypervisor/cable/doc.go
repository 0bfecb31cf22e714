// Package cable carries byte streams between the host and a virtual machine over
// a network device of their own: what serves the working folders by 9P where the
// emulator has no vhost-user.
//
// A serial port is no such carrier. QEMU moves 4 KiB of a character device at a
// time, each with a turn of its main loop and an interrupt of the guest, and a
// program in the guest has to carry every byte between the port and the kernel's
// client. A network device takes frames of 64 KiB, and the kernel's client reads
// and writes the socket itself. In an emulated guest a stream over the cable takes
// a third of the processor time for data, and a quarter for each small message.
//
// # The cable
//
// A stream of frames as QEMU's "-netdev stream" and "-netdev socket" speak it:
// four bytes of length, most significant first, and the ethernet frame. On the
// host's end a TCP/IP stack (gVisor's) has one address and listens on one port for
// each stream; there is no way from it to anywhere else. Addresses and ports are in
// guest/control.
//
// # Trust
//
// Frames come from a hostile guest. Those longer than the MTU allows are dropped
// unread. A port takes one connection in its life, that of the guest's init before
// it runs anything; the guest keeps the device where its ordinary users have no
// network. Buffers are bounded ([bufferBytes], [queueFrames]).
//
// # A guest that stands still
//
// A machine may be paused for hours with an answer on its way. So nothing is given
// up after however many retransmissions, and the pause between two of them has a
// bound.
package cable
