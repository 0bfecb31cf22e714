package shortcut

// The functions of this file are those of package strings and strconv, which are initialised late.

// after is what follows a prefix.
func after(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || s[:len(prefix)] != prefix {
		return s, false
	}
	return s[len(prefix):], true
}

func begins(s, prefix string) bool {
	_, ok := after(s, prefix)
	return ok
}

func ends(s, suffix string) bool {
	return len(s) >= len(suffix) && s[len(s)-len(suffix):] == suffix
}

// cut splits s around the first sep; found is false if there is none.
func cut(s, sep string) (before, rest string, found bool) {
	for i := 0; i+len(sep) <= len(s); i++ {
		if s[i:i+len(sep)] == sep {
			return s[:i], s[i+len(sep):], true
		}
	}
	return s, "", false
}

// number reads the digits that s begins with, of a number that is not large.
func number(s string) (n int, rest string, ok bool) {
	const most = 18
	i := 0
	for ; i < len(s) && i < most && s[i] >= '0' && s[i] <= '9'; i++ {
		n = 10*n + int(s[i]-'0')
	}
	return n, s[i:], i > 0 && i < most
}
