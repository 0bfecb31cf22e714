package pidfiles

// File is one that names a live process by its number.
type File struct {
	Path    string
	Program string // what the process executes, by its own word
	PID     int
}
