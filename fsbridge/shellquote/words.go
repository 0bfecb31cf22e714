package shellquote

// Words joins words with spaces; those that a shell could read as more are in single quotes.
func Words(words ...string) string {
	var b []byte
	for i, w := range words {
		if i > 0 {
			b = append(b, ' ')
		}
		if plain(w) {
			b = append(b, w...)
			continue
		}
		b = append(b, '\'')
		for _, c := range []byte(w) {
			if c == '\'' {
				b = append(b, `'\'`...)
			}
			b = append(b, c)
		}
		b = append(b, '\'')
	}
	return string(b)
}

// plain reports whether no shell sees anything in a word.
func plain(w string) bool {
	for _, c := range []byte(w) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '.', c == '/', c == '=', c == ':', c == ',', c == '+', c == '@', c == '%':
		default:
			return false
		}
	}
	return w != ""
}
