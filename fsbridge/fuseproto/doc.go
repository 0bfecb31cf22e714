// Package fuseproto performs the requests of the FUSE protocol on a [vfs.Tree],
// however they arrive: from a kernel mount (package fuse) or out of a virtual
// machine's memory (package virtiofs).
//
// [Handler.Perform] takes the bytes of a request and returns those of its reply.
// go-fuse decodes and encodes; [FileSystem] translates its structures into the calls
// of the tree, and back. It decides nothing: what a request may do stands in vfs.
// There is one [Handler] for each life of a kernel's mount, from FUSE_INIT on.
//
// What the protocol lets a server answer once and for all is answered so: opendir,
// flush and access are "not implemented", and cost no request after the first. Open
// is never: writers must be known. There is neither write-back cache nor
// passthrough; locks are the kernel's own affair.
//
// # Trust
//
// Requests may come from a hostile kernel. Their header must be there; everything
// else is checked by go-fuse or by the tree. A panic costs one EIO.
package fuseproto
