package web

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
)

// Bounds of a file of keys.
const (
	MinKeyBytes  = 16
	MaxKeyBytes  = 256
	MaxKeys      = 10_000
	maxKeysBytes = 1 << 20
	maxKeyName   = 253
)

// Key is one line of a file of keys. The secret itself is not kept.
type Key struct {
	// Name is what stands behind the secret; it may be empty.
	Name   string
	digest [sha256.Size]byte
}

// Keys are the secrets that a file lists. A nil *Keys knows none.
type Keys struct{ file *reread[[]Key] }

// OpenKeys reads a file of keys: see [ParseKeys] for its form, and [ReadPrivate] for the rights that it must have. It is read again when it has changed. log may be nil; it hears when that
// fails.
func OpenKeys(path string, log *slog.Logger) (*Keys, error) {
	file, err := newReread(log, func() ([]Key, error) {
		b, err := ReadPrivate(path, maxKeysBytes)
		if err != nil {
			return nil, fmt.Errorf("the keys: %w", err)
		}
		list, err := ParseKeys(b)
		if err != nil {
			return nil, fmt.Errorf("the keys: %s: %w", path, err)
		}
		return list, nil
	}, path)
	if err != nil {
		return nil, err
	}
	return &Keys{file}, nil
}

// ParseKeys reads keys: one a line, with a name behind it where the frontend knows names. Lines that are empty, or begin with #, are left out. A key has [MinKeyBytes] to [MaxKeyBytes] printable
// characters of ASCII, and no blanks. An error names the line and never the key.
func ParseKeys(text []byte) ([]Key, error) {
	var out []Key
	known := make(map[[sha256.Size]byte]int)
	for i, line := range bytes.Split(text, []byte("\n")) {
		words := strings.Fields(string(line))
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) > 2 {
			return nil, fmt.Errorf("line %d: more than a key and a name", i+1)
		}
		if n := len(words[0]); n < MinKeyBytes || n > MaxKeyBytes {
			return nil, fmt.Errorf("line %d: the key has %d characters, and must have %d to %d: openssl rand -hex 32 makes one", i+1, n, MinKeyBytes, MaxKeyBytes)
		}
		key := Key{digest: sha256.Sum256([]byte(words[0]))}
		if len(words) == 2 {
			key.Name = words[1]
		}
		if !printable(words[0]) || !printable(key.Name) || len(key.Name) > maxKeyName {
			return nil, fmt.Errorf("line %d: a key, and a name of at most %d characters, are printable characters of ASCII", i+1, maxKeyName)
		}
		if before := known[key.digest]; before != 0 {
			return nil, fmt.Errorf("line %d: the key of line %d once more", i+1, before)
		}
		known[key.digest] = i + 1
		if out = append(out, key); len(out) > MaxKeys {
			return nil, fmt.Errorf("line %d: more than %d keys", i+1, MaxKeys)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("there is no key in it: write one a line")
	}
	return out, nil
}

// printable reports whether all of s are printable characters of ASCII and no blanks.
func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0
}

// Find looks a key up. Its time does not tell which key it was, or how much of it was right.
func (k *Keys) Find(secret string) (Key, bool) {
	if k == nil {
		return Key{}, false
	}
	list, err := k.file.get()
	if err != nil {
		return Key{}, false // whoever was struck off the list must not come in by a list that cannot be read
	}
	digest, at := sha256.Sum256([]byte(secret)), -1
	for i := range list {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(digest[:], list[i].digest[:]), i, at)
	}
	if at < 0 {
		return Key{}, false
	}
	return list[at], true
}

// Names returns the names that keys have now, each once, in the order of the file; none while the file cannot be read.
func (k *Keys) Names() (names []string) {
	if k == nil {
		return nil
	}
	list, err := k.file.get()
	if err != nil {
		return nil
	}
	seen := make(map[string]bool, len(list))
	for _, key := range list {
		if !seen[key.Name] {
			seen[key.Name] = true
			names = append(names, key.Name)
		}
	}
	return names
}

// Bearer returns the token of a request's Authorization header, or "".
func Bearer(r *http.Request) string {
	kind, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(kind, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Handler lets requests through whose bearer token is one of the keys; the others get 401. A nil *Keys lets all through: see [Listen] for where that is allowed.
func (k *Keys) Handler(next http.Handler) http.Handler {
	if k == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := k.Find(Bearer(r)); !ok {
			w.Header().Set("WWW-Authenticate", "Bearer")
			PlainRefusal(w, r, http.StatusUnauthorized, "the bearer token is missing or wrong")
			return
		}
		next.ServeHTTP(w, r)
	})
}
