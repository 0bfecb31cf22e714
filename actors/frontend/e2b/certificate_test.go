package e2b

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pair writes a certificate with that number, and its key.
func pair(t *testing.T, cert, key string, number int64) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(number), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: b}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(number*100, 0) // a clock that has not moved on must not hide the change
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTLS: the files are read again when they change, and a pair that cannot be used leaves the old one.
func TestTLS(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	pair(t, cert, key, 1)
	conf, err := TLS(cert, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	number := func() int64 {
		c, err := conf.GetCertificate(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.SerialNumber.Int64()
	}
	if n := number(); n != 1 {
		t.Errorf("certificate %d", n)
	}
	pair(t, cert, key, 2)
	if n := number(); n != 2 {
		t.Errorf("certificate %d after a change", n)
	}
	if err := os.WriteFile(cert, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := number(); n != 2 {
		t.Errorf("certificate %d after a bad change", n)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if n := number(); n != 2 {
		t.Errorf("certificate %d without a key", n)
	}
	if _, err := TLS(cert, key, nil); err == nil {
		t.Error("a server without a key began")
	}
}
