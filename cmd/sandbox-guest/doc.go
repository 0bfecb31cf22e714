// Command sandbox-guest is our only program inside a guest: PID 1 of a jail, init
// of a virtual machine. sandbox starts it; by hand it is of no use. Everything that
// it does is in guest/inner.
package main
