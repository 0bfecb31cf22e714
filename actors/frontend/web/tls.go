package web

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
)

// maxPEM bounds the files of a certificate and of its key.
const maxPEM = 1 << 20

// OpenCertificate makes a server's TLS of two PEM files: the certificate with those that lead to its issuer, and its private key ([ReadPrivate]). Both are read again when one has changed; if they do not belong
// together then, the ones before stay in use, and log hears of it. Clients must speak TLS 1.2 or later, and HTTP/1.1. Both paths empty: no TLS, and the result is nil. log may be nil.
func OpenCertificate(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil
	}
	if certFile == "" || keyFile == "" {
		return nil, errors.New("TLS needs a certificate and its key: name both files")
	}
	files, err := newReread(log, func() (*tls.Certificate, error) { return readPair(certFile, keyFile) }, certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, _ := files.get() // what was there before serves on
			return pair, nil
		},
	}, nil
}

func readPair(certFile, keyFile string) (*tls.Certificate, error) {
	st, err := os.Stat(certFile)
	if err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	if !st.Mode().IsRegular() || st.Size() > maxPEM {
		return nil, fmt.Errorf("the certificate: %s: it is no regular file of at most %d bytes", certFile, maxPEM)
	}
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	key, err := ReadPrivate(keyFile, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("the certificate's key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", certFile, keyFile, err)
	}
	return &pair, nil
}
