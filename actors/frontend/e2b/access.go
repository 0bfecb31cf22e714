package e2b

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxKeysFile is how long a file of keys may be, in bytes, and minKey how long a key has to be.
const (
	maxKeysFile = 64 << 10
	minKey      = 16
)

// Keys are the API keys of a file: one a line, "#" begins a comment. The file is read again when it has changed. It is safe for concurrent use.
type Keys struct {
	path string

	mu     sync.Mutex
	stamp  stamp
	hashes [][sha256.Size]byte
	err    error
}

// stamp tells whether a file is still the one that was read.
type stamp struct {
	at   time.Time
	size int64
}

// OpenKeys reads a file of keys. The error says what is wrong with the file: only its owner may have access to it, and each key has at least 16 characters.
func OpenKeys(path string) (*Keys, error) {
	k := &Keys{path: path}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read()
	return k, k.err
}

// read reads the file if it has changed. The caller holds mu.
func (k *Keys) read() {
	f, st, err := openSecret(k.path)
	if err != nil {
		k.hashes, k.err, k.stamp = nil, err, stamp{}
		return
	}
	defer f.Close()
	now := stamp{st.ModTime(), st.Size()}
	if now == k.stamp {
		return
	}
	k.stamp = now
	if k.hashes, k.err = parseKeys(f); k.err != nil {
		k.err = fmt.Errorf("%s: %w", k.path, k.err)
	}
}

// openSecret opens a file that nobody but its owner may read or write.
func openSecret(path string) (*os.File, os.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err == nil {
		err = private(path, st)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

func parseKeys(r io.Reader) (hashes [][sha256.Size]byte, err error) {
	b, err := io.ReadAll(io.LimitReader(r, maxKeysFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxKeysFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxKeysFile)
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; lines.Scan(); n++ {
		key := strings.TrimSpace(lines.Text())
		switch {
		case key == "" || key[0] == '#':
			continue
		case len(key) < minKey || strings.ContainsAny(key, " \t"):
			return nil, fmt.Errorf("line %d is no key: it has to have at least %d characters, and no spaces", n, minKey)
		}
		hashes = append(hashes, sha256.Sum256([]byte(key)))
	}
	if len(hashes) == 0 {
		return nil, fmt.Errorf("there is no key in it")
	}
	return hashes, lines.Err()
}

// allow tells whether a key is one of the file's, in a time that does not depend on which.
func (k *Keys) allow(key string) error {
	sum := sha256.Sum256([]byte(key))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read()
	if k.err != nil {
		return fail(http.StatusServiceUnavailable, "the server's API keys cannot be read; its log says why")
	}
	found := 0
	for _, h := range k.hashes {
		found |= subtle.ConstantTimeCompare(h[:], sum[:])
	}
	if found == 0 {
		return fail(http.StatusUnauthorized, "the API key (X-API-Key) is missing, or none of this server's")
	}
	return nil
}

// OpenToken reads the only line of a file, which is a token.
func OpenToken(path string) (string, error) {
	f, _, err := openSecret(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxToken+2))
	token := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		return "", err
	case len(token) < minKey || len(token) > maxToken || strings.ContainsAny(token, " \t\r\n"):
		return "", fmt.Errorf("%s: it has to hold one token of %d to %d characters", path, minKey, maxToken)
	}
	return token, nil
}

const maxToken = 512

// newToken is 256 random bits.
func newToken() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails: see its documentation
	return base64.RawURLEncoding.EncodeToString(b)
}

// same compares in a time that depends on the lengths alone.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// signature is what a signed URL says.
type signature struct {
	path, operation, user string
	given                 string
	expires               int64 // seconds of Unix time; 0: never
}

const (
	operationRead, operationWrite = "read", "write"
	signaturePrefix               = "v1_"
)

// signatureOf reads the signature of a request for a file. There is none if given is empty.
func signatureOf(r *http.Request) (s signature, err error) {
	q := r.URL.Query()
	s = signature{path: q.Get("path"), user: q.Get("username"), given: q.Get("signature"), operation: operationRead}
	if r.Method == http.MethodPost {
		s.operation = operationWrite
	}
	if text := q.Get("signature_expiration"); text != "" {
		s.expires, err = strconv.ParseInt(text, 10, 64)
		if err != nil || s.expires <= 0 {
			return s, fail(http.StatusUnauthorized, "signature_expiration is no time")
		}
	}
	return s, nil
}

// sign is the signature that belongs to a token.
func (s signature) sign(token string) string {
	text := s.path + ":" + s.operation + ":" + s.user + ":" + token
	if s.expires != 0 {
		text += ":" + strconv.FormatInt(s.expires, 10)
	}
	sum := sha256.Sum256([]byte(text))
	return signaturePrefix + base64.RawStdEncoding.EncodeToString(sum[:])
}

// valid tells whether the signature was made with this token, and is not too old.
func (s signature) valid(token string, now time.Time) error {
	switch {
	case token == "" || !same(s.given, s.sign(token)):
		return fail(http.StatusUnauthorized, "the signature of this address is wrong")
	case s.expires != 0 && now.Unix() >= s.expires:
		return fail(http.StatusUnauthorized, "the signature of this address has expired")
	}
	return nil
}
