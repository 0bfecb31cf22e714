package web

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// pair makes a certificate of localhost, with a number, and its key.
func pair(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &private.PublicKey, private)
	must(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// TestCertificateIsReadAgain: new files are served to the next connection; files that do not belong together change nothing.
func TestCertificateIsReadAgain(t *testing.T) {
	cert, key := pair(t, 1)
	certFile, keyFile := write(t, "cert", string(cert)), write(t, "key", string(key))
	config, err := OpenCertificate(certFile, keyFile, nil)
	must(t, err)
	l, err := Listen(Listening{Address: "127.0.0.1:0", TLS: config})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Proto)) }), Serving{})
	}()
	defer func() {
		cancel()
		must(t, <-ended)
	}()
	serves := func(want int64, when string) {
		t.Helper()
		c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		must(t, err)
		defer c.Close()
		if got := c.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != want {
			t.Errorf("%s: %d, not %d", when, got, want)
		}
	}
	serves(1, "at first")
	cert, key = pair(t, 2)
	must(t, os.WriteFile(certFile, cert, 0o600))
	serves(1, "half of a new one")
	must(t, os.WriteFile(keyFile, key, 0o600))
	serves(2, "a new one")
	must(t, os.Remove(keyFile))
	serves(2, "without files")
}

func TestCertificateRefused(t *testing.T) {
	cert, key := pair(t, 1)
	other, _ := pair(t, 2)
	certFile, keyFile, otherFile, text := write(t, "cert", string(cert)), write(t, "key", string(key)), write(t, "other", string(other)), write(t, "text", "text")
	for _, c := range []struct{ cert, key, says string }{
		{certFile, "", "name both"}, {"", keyFile, "name both"}, {otherFile, keyFile, "does not match"}, {text, keyFile, "PEM"}, {certFile, text, "PEM"}, {certFile + "x", keyFile, "certificate:"}, {certFile, keyFile + "x", "key:"},
	} {
		if _, err := OpenCertificate(c.cert, c.key, nil); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %s: %v", c.cert, c.key, err)
		}
	}
	if config, err := OpenCertificate("", "", nil); config != nil || err != nil {
		t.Errorf("none: %v %v", config, err)
	}
}
