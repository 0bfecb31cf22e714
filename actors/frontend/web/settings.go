package web

import (
	"fmt"
	"log/slog"
	"net"
)

// Settings are what somebody who starts a listener says of it. The flags are the same for each frontend, and errors name them.
type Settings struct {
	// Address is HOST:PORT (--listen).
	Address string
	// Keys is a file of keys (--keys); empty: none, see [Listen].
	Keys string
	// Certificate and CertificateKey are PEM files (--tls-cert, --tls-key); empty: no TLS.
	Certificate, CertificateKey string
	// Origins are those of pages that may ask (--allow-origin), Hosts further names of the listener (--server-name): see [Access].
	Origins, Hosts []string
	// Tokens says that clients show the frontend a token in the place of a key.
	Tokens bool
	// Connections are served at a time; 0 means [DefaultConnections].
	Connections int
}

// Opened is a listener with its rules.
type Opened struct {
	Listener net.Listener
	Keys     *Keys // nil: none
	// Access has the rules of names and pages. What the protocol adds is its frontend's.
	Access Access
	// Scheme is http or https.
	Scheme string
}

// URL is where the listener is reached on this machine.
func (o *Opened) URL() string { return o.Scheme + "://" + o.Listener.Addr().String() }

// Open reads the files and listens. log may be nil; it hears when a file cannot be read again later, and of keys that go over the network in plain text.
func (s Settings) Open(log *slog.Logger) (*Opened, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	for _, origin := range s.Origins {
		if err := CheckOrigin(origin); err != nil {
			return nil, fmt.Errorf("--allow-origin: %w", err)
		}
	}
	o := &Opened{Scheme: "http"}
	var err error
	if s.Keys != "" {
		if o.Keys, err = OpenKeys(s.Keys, log); err != nil {
			return nil, fmt.Errorf("--keys: %w", err)
		}
	}
	config, err := OpenCertificate(s.Certificate, s.CertificateKey, log)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	if config != nil {
		o.Scheme = "https"
	}
	o.Listener, err = Listen(Listening{Address: s.Address, Flag: "--listen", Keys: o.Keys != nil || s.Tokens, TLS: config, Connections: s.Connections})
	if err != nil {
		return nil, err
	}
	o.Access = Access{Loopback: IsLoopback(o.Listener), Hosts: s.Hosts, Origins: s.Origins}
	if config == nil && !o.Access.Loopback {
		log.Warn("keys go over the network in plain text: name a certificate, or let something in front of this listener speak TLS", "address", o.Listener.Addr().String())
	}
	return o, nil
}

// Files are those that are read again later.
func (s Settings) Files() (paths []string) {
	for _, p := range []string{s.Keys, s.Certificate, s.CertificateKey} {
		if p != "" {
			paths = append(paths, p)
		}
	}
	return paths
}
