package qemu

// ending is how QEMU ended: clean is its own exit without an error, text is for people.
type ending struct {
	clean bool
	text  string
}
