package e2b

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/actors/frontend"
)

// envdPort is the port at which commands and files of a sandbox are asked for.
const envdPort = 49983

// idLength is how many characters an id has: about 103 random bits. An id can be a part of a host name and of a file's.
const (
	idLength = 20
	idDigits = "abcdefghijklmnopqrstuvwxyz0123456789"
)

// newID makes an id.
func newID() string {
	var id strings.Builder
	for id.Len() < idLength {
		var b [32]byte
		_, _ = rand.Read(b[:]) // never fails: see its documentation
		for _, c := range b {
			if int(c) < 256/len(idDigits)*len(idDigits) && id.Len() < idLength { // all digits are as likely
				id.WriteByte(idDigits[int(c)%len(idDigits)])
			}
		}
	}
	return id.String()
}

// isID tells whether s is what an id looks like.
func isID(s string) bool {
	return len(s) == idLength && strings.Trim(s, idDigits) == ""
}

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
	a := address{id: id, port: envdPort}
	if !isID(id) && !ValidName(id) {
		return address{}, fail(http.StatusBadRequest, "E2b-Sandbox-Id: %q is no id of a sandbox", frontend.Short([]byte(id)))
	}
	if port != "" {
		n, ok := portNumber(port)
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
	n, good := portNumber(port)
	if !ok || !good || !isID(id) {
		return address{}
	}
	return address{id, n}
}

// portNumber reads a port: 1 to 65535, in decimal digits without a sign or a zero before them.
func portNumber(s string) (uint16, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil && n > 0 && s[0] != '0' && s[0] != '+'
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

// local tells whether a Host header names this machine: a loopback address, or localhost.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
