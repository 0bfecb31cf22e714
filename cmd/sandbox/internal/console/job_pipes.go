package console

import "os"

// IsPipe tells whether somebody may wait for the end of f: it is a pipe or a socket.
func IsPipe(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}
