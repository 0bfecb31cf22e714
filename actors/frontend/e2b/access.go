package e2b

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/web"
)

// minKey is how long a token of a file has to be.
const minKey = web.MinKeyBytes

// OpenToken reads the only line of a file, which is a token.
func OpenToken(path string) (string, error) {
	b, err := web.ReadPrivate(path, maxToken+2)
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
			return s, wire.Fail(http.StatusUnauthorized, "signature_expiration is no time")
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
		return wire.Fail(http.StatusUnauthorized, "the signature of this address is wrong")
	case s.expires != 0 && now.Unix() >= s.expires:
		return wire.Fail(http.StatusUnauthorized, "the signature of this address has expired")
	}
	return nil
}
