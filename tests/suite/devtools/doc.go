// Package devtools works in a folder as a developer does, with tools that nobody
// here wrote: package managers that fetch through the allow-list network, dev
// servers and compilers inside that watch what is edited outside, and a browser
// outside that sees it.
//
// The registries are the tests' own, on the host's loopback, and speak the
// protocols of the real ones. package-lock.json pins vite and TypeScript;
// tests/kit/npm installs them.
package devtools
