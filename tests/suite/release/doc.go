// Package release tests what a release is made of: the packages as .goreleaser.yaml
// describes them, one of them installed in a Debian; the manual pages; the workflows'
// own script; and the links of the documents.
//
// GoReleaser itself takes minutes to build. So the packages are made here by nfpm, which
// is the part of it that makes packages, from the same description. 'make release' is for
// people, and for the workflow.
package release
