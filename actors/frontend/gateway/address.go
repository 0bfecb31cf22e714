package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"strings"

	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
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

// address is what a request is for: a port of a sandbox, or, without an id, the REST API.
type address struct {
	id   string
	port uint16
}

// addressOf finds out what a request is for. Headers count before the host's name.
func addressOf(r *http.Request, domain string) (address, error) {
	ids, ports := r.Header.Values("E2b-Sandbox-Id"), r.Header.Values("E2b-Sandbox-Port")
	if len(ids) == 0 {
		return addressOfHost(r.Host, domain), nil
	}
	if len(ids) > 1 || len(ports) > 1 {
		return address{}, fail(http.StatusBadRequest, "the request names several sandboxes")
	}
	a := address{ids[0], EnvdPort}
	if !wire.IsID(a.id) {
		return address{}, fail(http.StatusBadRequest, "E2b-Sandbox-Id: it is no id of a sandbox")
	}
	if len(ports) == 1 {
		port, ok := wire.PortNumber(ports[0])
		if !ok {
			return address{}, fail(http.StatusBadRequest, "E2b-Sandbox-Port: it is no port")
		}
		a.port = port
	}
	return a, nil
}

// addressOfHost reads PORT-ID.DOMAIN. Everything else is no sandbox's: a Host header may say anything.
func addressOfHost(host, domain string) address {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if name, _, err := net.SplitHostPort(domain); err == nil {
		domain = name
	}
	label, rest, ok := strings.Cut(strings.ToLower(strings.TrimSuffix(host, ".")), ".")
	if !ok || domain == "" || rest != strings.ToLower(domain) {
		return address{}
	}
	port, id, _ := strings.Cut(label, "-")
	if n, ok := wire.PortNumber(port); ok && wire.IsID(id) {
		return address{id, n}
	}
	return address{}
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
