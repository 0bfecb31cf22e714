// Command distfiles makes the parts of a release that GoReleaser does not:
//
//	distfiles licences DIR   THIRD-PARTY in DIR: the licence texts of all that is linked
//	distfiles sources IMAGES guest_sources.tar in IMAGES, by apt: the source packages of what the
//	                         guest images there are made of
//	distfiles release DIST IMAGES
//	                         in GoReleaser's directory: an OCI image, a Homebrew formula, a Nix flake,
//	                         and the guest images of 'make images' with their sources, which are in IMAGES
//
// It runs at the root of the module. The image has only the program and the licences: other
// images copy the program from it. No daemon and no base image is needed for that. The same
// input gives the same bytes.
package main
