package kube

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/codeagent/sandbox/supervision"
)

// accountDir is where a pod has its service account.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

const maxSecret = 1 << 20 // bytes of a token's or a certificate's file

// Config says where the API server is, and as whom to speak to it.
type Config struct {
	// Server is its address, as https://10.0.0.1:443.
	Server string
	// TokenFile has the service account's token; empty: none is sent. CAFile has the certificates of the server's issuer (PEM); empty: those of this machine.
	TokenFile, CAFile string
	// Silence is how long the server may say nothing on a connection before it is asked whether it is there, and how long it may take to say so; 0 means 10 seconds.
	Silence time.Duration
	// Clock is the time; nil means the real one.
	Clock supervision.Clock
}

const defaultSilence = 10 * time.Second

// InCluster fills in what is empty from what a pod is told: the variables KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, and the files of its service account.
func (c Config) InCluster(getenv func(string) string) (Config, error) {
	if c.Server == "" {
		host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return c, errors.New("this is no pod of a cluster (KUBERNETES_SERVICE_HOST is not set): name the API server with --kube-server")
		}
		c.Server = "https://" + net.JoinHostPort(host, port)
		if c.TokenFile == "" {
			c.TokenFile = filepath.Join(accountDir, "token")
		}
		if c.CAFile == "" {
			c.CAFile = filepath.Join(accountDir, "ca.crt")
		}
	}
	return c, nil
}

// Client speaks to an API server.
type Client struct {
	base      *url.URL
	tokenFile string
	http      *http.Client
	clock     supervision.Clock
	turns     turns // of objects, by path
}

// New makes a client. It asks nothing yet.
func New(c Config) (*Client, error) {
	base, err := url.Parse(strings.TrimSuffix(c.Server, "/"))
	if err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Host == "" || base.RawQuery != "" || base.User != nil {
		return nil, fmt.Errorf("the API server %q: it is https://HOST:PORT", c.Server)
	}
	if base.Scheme == "http" && c.TokenFile != "" && !loopback(base.Hostname()) {
		return nil, fmt.Errorf("the API server %s: a token is sent over https only", c.Server)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := readFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("the API server's certificates: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the API server's certificates: there is none in %s", c.CAFile)
		}
	}
	if c.Clock == nil {
		c.Clock = supervision.RealClock{}
	}
	if c.Silence == 0 {
		c.Silence = defaultSilence
	}
	return &Client{
		base: base, tokenFile: c.TokenFile, clock: c.Clock,
		http: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute, IdleConnTimeout: 90 * time.Second,
				DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext, MaxIdleConnsPerHost: 32, MaxResponseHeaderBytes: 256 << 10, ForceAttemptHTTP2: true,
				// All requests share one connection. If its other end has gone without a word, each of them would wait for it in turn, until the kernel gives it up after a quarter of an hour.
				HTTP2: &http.HTTP2Config{SendPingTimeout: c.Silence, PingTimeout: c.Silence},
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Close closes connections that nobody uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// token reads the token of now.
func (c *Client) token() (string, error) {
	if c.tokenFile == "" {
		return "", nil
	}
	b, err := readFile(c.tokenFile)
	if err != nil {
		return "", fmt.Errorf("the service account's token: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err == nil && len(b) > maxSecret {
		err = fmt.Errorf("%s: it is longer than %d bytes", path, maxSecret)
	}
	return b, err
}
