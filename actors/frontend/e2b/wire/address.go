package wire

import (
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/actors/frontend"
)

// EnvdPort is the port at which commands and files of a sandbox are asked for.
const EnvdPort = 49983

// The headers that say which sandbox, and which port of it, a request is for.
const (
	SandboxHeader = "E2b-Sandbox-Id"
	PortHeader    = "E2b-Sandbox-Port"
)

// Address is what a request is for: a port of a sandbox, or, without an id, the REST API.
type Address struct {
	ID   string // an id, or another name that [ValidName] takes: one sandbox may have any
	Port uint16
}

// AddressOf finds out what a request is for. Headers count before the name of the host, which counts if it is PORT-ID.domain; an empty domain has no such names. The error is a [Problem].
func AddressOf(r *http.Request, domain string) (Address, error) {
	ids, ports := r.Header.Values(SandboxHeader), r.Header.Values(PortHeader)
	if len(ids) == 0 {
		return addressOfHost(r.Host, domain), nil
	}
	if len(ids) > 1 || len(ports) > 1 {
		return Address{}, Fail(http.StatusBadRequest, "the request names several sandboxes")
	}
	a := Address{ids[0], EnvdPort}
	if !ValidName(a.ID) {
		return Address{}, Fail(http.StatusBadRequest, "%s: %q is no id of a sandbox", SandboxHeader, frontend.Short([]byte(a.ID)))
	}
	if len(ports) == 1 {
		port, ok := PortNumber(ports[0])
		if !ok {
			return Address{}, Fail(http.StatusBadRequest, "%s: %q is no port", PortHeader, frontend.Short([]byte(ports[0])))
		}
		a.Port = port
	}
	return a, nil
}

// addressOfHost reads PORT-ID.DOMAIN; ports of the listener count for nothing. Everything else is no sandbox's: a Host header may say anything.
func addressOfHost(host, domain string) Address {
	label, rest, ok := strings.Cut(strings.ToLower(strings.TrimSuffix(withoutPort(host), ".")), ".")
	if domain = strings.ToLower(withoutPort(domain)); !ok || domain == "" || rest != domain {
		return Address{}
	}
	port, id, _ := strings.Cut(label, "-")
	if n, ok := PortNumber(port); ok && IsID(id) {
		return Address{id, n}
	}
	return Address{}
}

func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// PortNumber reads a port: 1 to 65535, in decimal digits without a sign or a zero before them.
func PortNumber(s string) (uint16, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil && n > 0 && s[0] != '0' && s[0] != '+'
}
