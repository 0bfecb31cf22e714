package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
)

// labelLetters are those of a label.
const labelLetters = "abcdefghijklmnopqrstuvwxyz0123456789-"

// isLabel reports whether s is a name of a namespace.
func isLabel(s string) bool {
	return len(s) > 0 && len(s) <= 63 && strings.Trim(s, labelLetters) == "" && s[0] != '-' && s[len(s)-1] != '-'
}

// isName reports whether s is a name of an object: labels with dots between them.
func isName(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		if !isLabel(part) {
			return false
		}
	}
	return len(s) <= 253
}

// Purposes of tokens.
const (
	forEnvd    = "envd"
	forTraffic = "traffic"
)

// token is a sandbox's for a purpose.
func (g *Gateway) token(purpose, namespace, id string) string {
	mac := hmac.New(sha256.New, g.o.Secret)
	mac.Write([]byte(purpose + "\x00" + namespace + "\x00" + id)) // none of them has a zero in it
	return hex.EncodeToString(mac.Sum(nil))
}

// namespaceOf finds the namespace whose sandbox of this id has this token, in a time that does not depend on which.
func (g *Gateway) namespaceOf(id, token string) (namespace string, ok bool) {
	for _, name := range g.namespaces() {
		if equal(token, g.token(forEnvd, name, id)) {
			namespace, ok = name, true
		}
	}
	return namespace, ok
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
