package notify

import "bytes"

// What /proc says of who waits.

// Umask finds the umask in the beginning of a status file.
func Umask(status []byte) (mask uint32, ok bool) {
	key := []byte("\nUmask:\t")
	at := bytes.Index(status, key)
	if at < 0 {
		return 0, false
	}
	for _, c := range status[at+len(key):] {
		switch {
		case c >= '0' && c <= '7' && mask < 0o1000:
			mask = mask<<3 | uint32(c-'0')
		case c == '\n':
			return mask, true
		default:
			return 0, false
		}
	}
	return 0, false
}

// SleepsElsewhere tells whether a thread sleeps, and not until we have answered it: wchan is the
// function of the kernel in which it does, or 0.
func SleepsElsewhere(wchan []byte) bool {
	return len(wchan) > 1 && !bytes.Contains(wchan, []byte("seccomp"))
}
