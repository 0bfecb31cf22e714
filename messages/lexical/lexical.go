package lexical

import "path/filepath"

// Rel returns the path relative to dir, clean, if path is dir (".") or lies in
// it. Either both are absolute, or both are relative to the same directory;
// else in is false.
func Rel(dir, path string) (rel string, in bool) {
	rel, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return rel, true
}

// Within reports whether path is dir or lies in it. The paths are as for [Rel].
func Within(path, dir string) bool {
	_, in := Rel(dir, path)
	return in
}

// Below reports whether path lies in dir and is not dir itself. The paths are
// as for [Rel].
func Below(path, dir string) bool {
	rel, in := Rel(dir, path)
	return in && rel != "."
}
