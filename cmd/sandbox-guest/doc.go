// Command sandbox-guest is the one program of ours inside a guest. sandbox
// starts it; it is of no use by hand.
package main
