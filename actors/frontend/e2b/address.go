package e2b

import (
	"net/http"
	"strings"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
)

// address is what a request is for: a port of a sandbox.
type address struct {
	id   string // empty: no sandbox, but the REST API
	port uint16
}

// addressOf finds out what a request is for. Names of hosts count below domain only ("" is none); headers count before them.
func addressOf(r *http.Request, domain string) (address, error) {
	id, port := r.Header.Get("E2b-Sandbox-Id"), r.Header.Get("E2b-Sandbox-Port")
	if id == "" {
		return addressOfHost(r.Host, domain), nil
	}
	if len(r.Header.Values("E2b-Sandbox-Id")) > 1 || len(r.Header.Values("E2b-Sandbox-Port")) > 1 {
		return address{}, fail(http.StatusBadRequest, "the request names several sandboxes")
	}
	a := address{id: id, port: wire.EnvdPort}
	if !wire.IsID(id) && !ValidName(id) {
		return address{}, fail(http.StatusBadRequest, "E2b-Sandbox-Id: %q is no id of a sandbox", frontend.Short([]byte(id)))
	}
	if port != "" {
		n, ok := wire.PortNumber(port)
		if !ok {
			return address{}, fail(http.StatusBadRequest, "E2b-Sandbox-Port: %q is no port", frontend.Short([]byte(port)))
		}
		a.port = n
	}
	return a, nil
}

// addressOfHost reads PORT-ID.DOMAIN. Everything else is no address of a sandbox: a Host header may say anything.
func addressOfHost(host, domain string) (a address) {
	label, rest, ok := strings.Cut(strings.ToLower(host), ".")
	if !ok || domain == "" || rest != strings.ToLower(domain) {
		return address{}
	}
	port, id, ok := strings.Cut(label, "-")
	n, good := wire.PortNumber(port)
	if !ok || !good || !wire.IsID(id) {
		return address{}
	}
	return address{id, n}
}

// ValidName tells whether s can be the name of a sandbox, a template or a snapshot: letters, digits, '.', '_' and '-', the first a letter or digit, at most 64.
func ValidName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}
