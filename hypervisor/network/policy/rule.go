package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// ErrSyntax is wrapped by errors about a mode, a rule or a name that cannot be
// understood.
var ErrSyntax = errors.New("policy: syntax")

// HostName is the name by which the guest finds the host: as the host of a rule, its
// 127.0.0.1 and its ::1.
const HostName = "host.sandbox.internal"

// Mode is the kind of a policy.
type Mode string

// The modes; see the package's documentation.
const (
	Disabled  Mode = "disabled"
	Open      Mode = "open"
	Allowlist Mode = "allowlist"
	Ask       Mode = "ask"
	Pod       Mode = "pod"
	PodAsk    Mode = "pod-ask"
)

// ParseMode returns the mode of that name; an error wraps [ErrSyntax].
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Disabled, Open, Allowlist, Ask, Pod, PodAsk:
		return m, nil
	}
	return "", fmt.Errorf("%w: network policy %q: use disabled, open, allowlist, ask, pod or pod-ask", ErrSyntax, s)
}

// Protocol is the kind of a flow.
type Protocol string

// The protocols. DNS is a lookup answered by ourselves, not one sent elsewhere.
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	ICMP Protocol = "icmp"
	DNS  Protocol = "dns"
)

// Rule allows something; its zero value allows nothing. Rules are values.
type Rule struct {
	text     string
	protocol Protocol // empty: any
	any      bool
	prefix   netip.Prefix // valid for addresses and ranges
	host     bool         // [HostName]: the prefix is 127.0.0.1, and ::1 is meant, too
	domain   string       // canonical; empty for the others
	below    bool         // "*.domain"
	low      uint16       // ports; 0, 0: any
	high     uint16
}

// String returns the rule as it was written.
func (r Rule) String() string { return r.text }

// ParseRules parses several; the error is about the first that is wrong.
func ParseRules(texts []string) ([]Rule, error) {
	rules := make([]Rule, 0, len(texts))
	for _, t := range texts {
		r, err := ParseRule(t)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// ParseRule parses one rule; an error wraps [ErrSyntax] and names the rule.
func ParseRule(text string) (Rule, error) {
	r, err := parseRule(strings.TrimSpace(text))
	if err != nil {
		return Rule{}, fmt.Errorf("%w: network rule %q: %s", ErrSyntax, text, err)
	}
	return r, nil
}

func parseRule(text string) (Rule, error) {
	r := Rule{text: text}
	rest := text
	if strings.Contains(text, "://") {
		return r, errors.New("this is an address of a page: write its host alone, as example.com or example.com:443")
	}
	for _, p := range []Protocol{TCP, UDP, ICMP} {
		if after, ok := strings.CutPrefix(rest, string(p)+"/"); ok {
			r.protocol, rest = p, after
			break
		}
	}
	host, ports, err := splitPorts(rest)
	if err != nil {
		return r, err
	}
	if ports != "" {
		if r.low, r.high, err = parsePorts(ports); err != nil {
			return r, err
		}
		if r.protocol == ICMP {
			return r, errors.New("icmp has no ports")
		}
	}
	return r, r.parseHost(host)
}

func (r *Rule) parseHost(host string) error {
	if host == "*" {
		r.any = true
		return nil
	}
	if p, err := netip.ParsePrefix(host); err == nil {
		if p.Addr().Is4In6() {
			return errors.New("write IPv4 ranges as IPv4")
		}
		if p.Masked() != p {
			return fmt.Errorf("bits are set outside the mask: do you mean %s?", p.Masked())
		}
		r.prefix = p
		return nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" {
			return errors.New("an address with a zone")
		}
		a = a.Unmap()
		r.prefix = netip.PrefixFrom(a, a.BitLen())
		return nil
	}
	domain := host
	if after, ok := strings.CutPrefix(host, "*."); ok {
		domain, r.below = after, true
	}
	name, err := CanonicalName(domain)
	if err != nil {
		return fmt.Errorf("%q is no address, range or domain", host)
	}
	// "10.0.0.300" and "10.0.0.0/40" are mistakes, not domains.
	if last := name[strings.LastIndexByte(name, '.')+1:]; last[0] >= '0' && last[0] <= '9' {
		return fmt.Errorf("%q is no address, range or domain", host)
	}
	if name == HostName && !r.below {
		r.prefix, r.host = netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 32), true
		return nil
	}
	r.domain = name
	return nil
}

// splitPorts parts HOST from PORTS at the colon behind the host.
func splitPorts(s string) (host, ports string, err error) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		host, rest, ok := strings.Cut(inner, "]")
		if !ok {
			return "", "", errors.New("a bracket is missing")
		}
		if rest == "" {
			return host, "", nil
		}
		ports, ok := strings.CutPrefix(rest, ":")
		if !ok || ports == "" {
			return "", "", errors.New("behind the bracket goes :PORT")
		}
		return host, ports, nil
	}
	if strings.Count(s, ":") != 1 { // none, or a bare IPv6 address
		return s, "", nil
	}
	host, ports, _ = strings.Cut(s, ":")
	if ports == "" {
		return "", "", errors.New("no port behind the colon")
	}
	return host, ports, nil
}

func parsePorts(s string) (low, high uint16, err error) {
	a, b, ranged := strings.Cut(s, "-")
	if !ranged {
		b = a
	}
	for i, p := range []string{a, b} {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return 0, 0, fmt.Errorf("%q is no port (1-65535)", p)
		}
		if i == 0 {
			low = uint16(n)
		} else {
			high = uint16(n)
		}
	}
	if low > high {
		return 0, 0, errors.New("the first port is the higher one")
	}
	return low, high, nil
}

// holds tells whether it is a rule about this address, or about a range with it.
func (r Rule) holds(a netip.Addr) bool {
	return r.prefix.IsValid() && r.prefix.Contains(a) || r.host && a == netip.IPv6Loopback()
}

// opens tells whether it names an address of this protected range and not more than the range.
func (r Rule) opens(a netip.Addr, within netip.Prefix) bool {
	return within.IsValid() && r.holds(a) && (r.host || r.prefix.Bits() >= within.Bits())
}

// covers tells whether the rule's protocol and ports include these.
func (r Rule) covers(p Protocol, port uint16) bool {
	if r.protocol != "" && r.protocol != p {
		return false
	}
	if r.low == 0 {
		return true
	}
	return p != ICMP && port >= r.low && port <= r.high
}

// names tells whether it is a rule about this canonical name.
func (r Rule) names(name string) bool {
	if r.domain == "" {
		return false
	}
	if r.below {
		return len(name) > len(r.domain)+1 && strings.HasSuffix(name, r.domain) && name[len(name)-len(r.domain)-1] == '.'
	}
	return name == r.domain
}

// CanonicalName returns a domain name in lower case without the final dot. It
// refuses, wrapping [ErrSyntax], what is no host name: labels of letters,
// digits, '-' and '_', 63 bytes at most each, 253 in all.
func CanonicalName(name string) (string, error) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "" || len(name) > 253 {
		return "", fmt.Errorf("%w: a name of %d bytes", ErrSyntax, len(name))
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return "", fmt.Errorf("%w: a label of %d bytes", ErrSyntax, len(label))
		}
		for i := 0; i < len(label); i++ {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return "", fmt.Errorf("%w: byte %q in a name", ErrSyntax, c)
			}
		}
	}
	return name, nil
}
