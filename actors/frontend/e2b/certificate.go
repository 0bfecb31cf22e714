package e2b

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// certificate is that of two files, which are read again when they have changed. It is safe for concurrent use.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu        sync.Mutex
	cert, key stamp
	now       *tls.Certificate
}

// TLS makes the configuration of a listener with the certificate and the key of two files. They are read again when they have changed; if that fails, the old ones stay and the log says so. Only its owner may have access to the key.
func TLS(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil },
	}, nil
}

// get is the certificate as the files have it.
func (c *certificate) get() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(); err != nil {
		c.log.Warn("the new certificate cannot be used, and the old one stays", "component", "e2b", "err", err)
	}
	return c.now
}

// load reads the files if they have changed. A pair that cannot be used is not read again until it has changed once more.
func (c *certificate) load() error {
	st, err := os.Stat(c.certFile)
	if err != nil {
		return err
	}
	f, key, err := openSecret(c.keyFile)
	if err != nil {
		return err
	}
	_ = f.Close()
	cert, keys := stamp{st.ModTime(), st.Size()}, stamp{key.ModTime(), key.Size()}
	if cert == c.cert && keys == c.key {
		return nil
	}
	c.cert, c.key = cert, keys
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", c.certFile, c.keyFile, err)
	}
	c.now = &pair
	return nil
}
