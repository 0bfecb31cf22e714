package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Refuse answers a request that is not let through. text is for people.
type Refuse func(w http.ResponseWriter, r *http.Request, status int, text string)

// PlainRefusal is the [Refuse] of those who have no form of their own: a line of text. The connection ends.
func PlainRefusal(w http.ResponseWriter, _ *http.Request, status int, text string) {
	w.Header().Set("Connection", "close")
	http.Error(w, text, status)
}

// Access says which requests are let through, whoever sends them: those that no web page can have made, or that come from a page which was allowed. The zero value is for a listener that others
// reach, and allows no page.
type Access struct {
	// Loopback says that the listener is at a loopback address: then the Host header must be a name of this machine, or one of Hosts.
	Loopback bool
	// Hosts are the names, without a port, by which the listener is reached otherwise; "*.example.org" is all names below that one. Unless Loopback is set, none means all.
	Hosts []string
	// Origins are those of the pages that may ask, as "https://example.org". A page of another origin is refused.
	Origins []string
	// Methods, Headers and Exposed are what a page of these origins may use (CORS), beside what each page may.
	Methods, Headers, Exposed []string
	// Refuse answers the others; nil means [PlainRefusal].
	Refuse Refuse
}

// CheckOrigin says what is wrong with an origin that is to be allowed.
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || origin != u.Scheme+"://"+u.Host {
		return fmt.Errorf("%q is no origin: it is https://HOST or http://HOST:PORT, with nothing behind it", origin)
	}
	return nil
}

// Handler lets through what it may.
func (a Access) Handler(next http.Handler) http.Handler {
	refuse := a.Refuse
	if refuse == nil {
		refuse = PlainRefusal
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := a.refused(r); why != "" {
			refuse(w, r, http.StatusForbidden, why)
			return
		}
		origin := r.Header.Get("Origin")
		if len(a.Origins) > 0 {
			w.Header().Add("Vary", "Origin")
		}
		if origin == "" {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", strings.Join(a.Methods, ", "))
			h.Set("Access-Control-Allow-Headers", strings.Join(a.Headers, ", "))
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if len(a.Exposed) > 0 {
			h.Set("Access-Control-Expose-Headers", strings.Join(a.Exposed, ", "))
		}
		next.ServeHTTP(w, r)
	})
}

// refused says why a request is not let through, or "".
func (a Access) refused(r *http.Request) string {
	if !a.answersTo(hostname(r.Host)) {
		return "this server does not answer by that name (the Host header)"
	}
	origins := r.Header.Values("Origin")
	if len(origins) > 1 || len(origins) == 1 && !slices.Contains(a.Origins, origins[0]) {
		return "the request comes from a web page that is not allowed (the Origin header)"
	}
	if site := r.Header.Get("Sec-Fetch-Site"); len(origins) == 0 && site != "" && site != "same-origin" && site != "none" {
		return "the request comes from a web page that is not allowed (the Sec-Fetch-Site header)"
	}
	return ""
}

// answersTo reports whether the listener has a name.
func (a Access) answersTo(host string) bool {
	switch {
	case !a.Loopback && len(a.Hosts) == 0, a.Loopback && local(host):
		return true
	}
	return slices.ContainsFunc(a.Hosts, func(p string) bool { return covers(p, host) })
}

// hostname is a Host header's name, in small letters and without port and final dot.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// NamesThisMachine reports whether a Host header names this machine: localhost, or a loopback address.
func NamesThisMachine(host string) bool { return local(hostname(host)) }

// local reports whether host names this machine wherever it is looked up.
func local(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// covers reports whether a pattern of Hosts is for a name.
func covers(pattern, host string) bool {
	pattern = strings.ToLower(pattern)
	if parent, ok := strings.CutPrefix(pattern, "*"); ok && strings.HasPrefix(parent, ".") {
		return len(host) > len(parent) && strings.HasSuffix(host, parent)
	}
	return pattern == host
}
