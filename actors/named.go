package actors

import (
	"os"
	"path/filepath"
	"strings"
)

// Bounds of what is looked at in a command line.
const (
	mostNamed      = 256
	longestCommand = 64 << 10 // bytes
)

// namedPaths are the paths that the words of a command line may name, also within a shell's script: absolute and clean, in order, none twice. Words are taken
// as they are, and apart at what a shell, an option or a list may put around a name; a leading ~ and $HOME are home.
func namedPaths(argv []string, dir, home string) (paths []string) {
	seen := make(map[string]bool)
	left := longestCommand
	add := func(word string) {
		word = strings.TrimLeft(word, "@")
		if word == "" || strings.HasPrefix(word, "-") || len(seen) >= mostNamed {
			return
		}
		if rest, ok := strings.CutPrefix(word, "~"); ok && home != "" && (rest == "" || rest[0] == '/') {
			word = home + rest
		}
		if !filepath.IsAbs(word) {
			word = filepath.Join(dir, word)
		}
		if word = filepath.Clean(word); !seen[word] {
			seen[word] = true
			paths = append(paths, word)
		}
	}
	for _, arg := range argv {
		if left -= len(arg); left < 0 {
			break
		}
		add(arg)
		text := strings.NewReplacer("$HOME/", "~/", "${HOME}/", "~/").Replace(arg)
		if words := strings.FieldsFunc(text, apart); len(words) != 1 || words[0] != arg {
			for _, word := range words {
				add(word)
			}
		}
	}
	return paths
}

// apart tells whether a rune does not belong to a name, as names mostly are.
func apart(r rune) bool { return strings.ContainsRune(" \t\n\"'`;|&<>(){}=:,", r) }

// homeOf is the home directory that an environment names, or this process's.
func homeOf(env []string) string {
	for _, e := range env {
		if home, ok := strings.CutPrefix(e, "HOME="); ok {
			return home
		}
	}
	return os.Getenv("HOME")
}
