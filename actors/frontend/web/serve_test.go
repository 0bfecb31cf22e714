package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served serves h until the test ends.
func served(t *testing.T, o Listening, h http.HandlerFunc) (url string, stop func()) {
	t.Helper()
	o.Address = "127.0.0.1:0"
	l, err := Listen(o)
	must(t, err)
	if !IsLoopback(l) {
		t.Error("127.0.0.1 is no loopback address")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, h, Serving{Grace: time.Minute}) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			must(t, <-ended)
		}
	}
	t.Cleanup(stop)
	return "http://" + l.Addr().String(), stop
}

func TestListenRefuses(t *testing.T) {
	for _, c := range []struct {
		o    Listening
		says string
	}{
		{Listening{Address: ":0"}, "name a file of keys"},
		{Listening{Address: "0.0.0.0:0"}, "name a file of keys"},
		{Listening{Address: "[::]:0"}, "name a file of keys"},
		{Listening{Address: "127.0.0.1"}, "HOST:PORT"},
		{Listening{Address: "127.0.0.1:99999"}, "HOST:PORT"},
		{Listening{Address: "", Keys: true}, "HOST:PORT"},
	} {
		c.o.Flag = "--listen"
		l, err := Listen(c.o)
		if err == nil {
			_ = l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "--listen "+c.o.Address) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	for _, o := range []Listening{{Address: "0.0.0.0:0", Keys: true}, {Address: ":0", Public: true}} {
		l, err := Listen(o)
		must(t, err)
		if IsLoopback(l) {
			t.Errorf("%s is a loopback address", o.Address)
		}
		must(t, l.Close())
	}
}

// TestConnections: one connection more than there may be waits until another is gone.
func TestConnections(t *testing.T) {
	entered := make(chan string, 3)
	url, _ := served(t, Listening{Connections: 1}, func(_ http.ResponseWriter, r *http.Request) {
		entered <- r.URL.Path
		if r.URL.Path == "/first" {
			<-r.Context().Done()
		}
	})
	address := strings.TrimPrefix(url, "http://")
	first, err := net.Dial("tcp", address)
	must(t, err)
	_, err = io.WriteString(first, "GET /first HTTP/1.1\r\nHost: x\r\n\r\n")
	must(t, err)
	if got := <-entered; got != "/first" {
		t.Fatal(got)
	}
	second, err := net.Dial("tcp", address)
	must(t, err)
	defer second.Close()
	_, err = io.WriteString(second, "GET /second HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	must(t, err)
	select {
	case got := <-entered:
		t.Errorf("%s was served beside the first", got)
	default:
	}
	must(t, first.Close())
	if b, err := io.ReadAll(second); err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 200")) {
		t.Errorf("%q %v", b, err)
	}
}

// TestSlowReader: a client that does not read is gone, and its handler hears of it.
func TestSlowReader(t *testing.T) {
	failed := make(chan error, 1)
	url, _ := served(t, Listening{WriteTime: 50 * time.Millisecond}, func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				failed <- err
				return
			}
		}
	})
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	must(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	must(t, err)
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// TestServeFile: what the kernel sends without us arrives whole, also where only a part of the file is sent.
func TestServeFile(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 12*piece/16+1)
	path := write(t, "file", string(content))
	url, _ := served(t, Listening{}, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) })
	get := func(span string) []byte {
		r, err := http.NewRequest("GET", url, nil)
		must(t, err)
		if span != "" {
			r.Header.Set("Range", "bytes="+span)
		}
		a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		must(t, err)
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		must(t, err)
		return b
	}
	if got := get(""); !bytes.Equal(got, content) {
		t.Errorf("%d bytes of %d", len(got), len(content))
	}
	if got := get("5-2000004"); !bytes.Equal(got, content[5:2000005]) {
		t.Errorf("a part: %d bytes", len(got))
	}
}

// TestServeEnds: when it is to end, a request goes on, and no other begins.
func TestServeEnds(t *testing.T) {
	entered, finish := make(chan struct{}), make(chan struct{})
	url, stop := served(t, Listening{}, func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-finish
		_, _ = io.WriteString(w, "done")
	})
	got := make(chan string, 1)
	go func() {
		a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url)
		if err != nil {
			got <- err.Error()
			return
		}
		defer a.Body.Close()
		b, _ := io.ReadAll(a.Body)
		got <- string(b)
	}()
	<-entered
	ended := make(chan struct{})
	go func() { stop(); close(ended) }()
	select {
	case <-ended:
		t.Error("it ended before its request")
	case finish <- struct{}{}:
	}
	if text := <-got; text != "done" {
		t.Error(text)
	}
	<-ended
}

// TestServeEndsNow: without grace a request's context ends at once.
func TestServeEndsNow(t *testing.T) {
	l, err := Listen(Listening{Address: "127.0.0.1:0"})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	returned := false
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
			returned = true
		}), Serving{})
	}()
	a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + l.Addr().String())
	if err == nil {
		_ = a.Body.Close()
	}
	must(t, <-ended)
	if !returned {
		t.Error("it ended before its handler")
	}
}

// TestUnreadBody: a client whose body does not come holds no connection, also where nobody asks for the body; who reads it, for as long as it takes, and what comes after it, has no such limit.
func TestUnreadBody(t *testing.T) {
	l, err := Listen(Listening{Address: "127.0.0.1:0"})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	late := make(chan struct{})
	go func() {
		ended <- Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/refused":
				w.WriteHeader(http.StatusForbidden)
			case "/long":
				_, _ = w.Write(make([]byte, 1<<16)) // the server reads the body first
			case "/read":
				<-late
				b, _ := io.ReadAll(r.Body)
				_, _ = w.Write(b)
			}
		}), Serving{unread: 50 * time.Millisecond})
	}()
	defer func() { cancel(); must(t, <-ended) }()
	dial := func(path string) net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n")
		must(t, err)
		return c
	}
	patient := dial("/read")
	for path, status := range map[string]string{"/refused": "403", "/long": "200"} {
		if b, err := io.ReadAll(dial(path)); err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 "+status)) { // it ends after the limit
			t.Errorf("%s: %.30q %v", path, b, err)
		}
	}
	close(late) // more than the limit has passed
	_, err = io.WriteString(patient, "body")
	must(t, err)
	_, err = io.WriteString(patient, "GET /refused HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	must(t, err)
	if b, err := io.ReadAll(patient); err != nil || !bytes.Contains(b, []byte("\r\n\r\nbody")) || !bytes.Contains(b, []byte("403")) {
		t.Errorf("%.300q %v", b, err)
	}
}

func TestBody(t *testing.T) {
	url, _ := served(t, Listening{}, func(w http.ResponseWriter, r *http.Request) {
		pause := time.Minute
		if r.URL.Path == "/slow" {
			pause = 50 * time.Millisecond
		}
		b, err := io.ReadAll(Body(w, r, 10, pause))
		var long *http.MaxBytesError
		switch {
		case errors.As(err, &long):
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		case errors.Is(err, os.ErrDeadlineExceeded):
			w.WriteHeader(http.StatusRequestTimeout)
		default:
			_, _ = w.Write(b)
		}
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	pending, end := io.Pipe()
	defer end.Close()
	go func() { _, _ = end.Write([]byte("1")) }()
	for _, c := range []struct {
		path   string
		body   io.Reader
		status int
	}{
		{"/", strings.NewReader("0123456789"), 200}, {"/", strings.NewReader("0123456789x"), 413}, {"/", io.MultiReader(strings.NewReader("0123456789"), strings.NewReader("x")), 413},
		{"/slow", pending, 408},
	} {
		a, err := client.Post(url+c.path, "text/plain", c.body)
		must(t, err)
		_ = a.Body.Close()
		if a.StatusCode != c.status {
			t.Errorf("%d, not %d", a.StatusCode, c.status)
		}
	}
}

// TestSettings: what is named is read, and what is wrong is told by its flag.
func TestSettings(t *testing.T) {
	keys := write(t, "keys", first)
	cert, key := pair(t, 1)
	certFile, keyFile := write(t, "cert", string(cert)), write(t, "key", string(key))
	for _, c := range []struct {
		s    Settings
		says string
	}{
		{Settings{Address: "0.0.0.0:0"}, "--listen 0.0.0.0:0"},
		{Settings{Address: "127.0.0.1:0", Keys: keys + "x"}, "--keys"},
		{Settings{Address: "127.0.0.1:0", Certificate: certFile}, "--tls-cert, --tls-key"},
		{Settings{Address: "127.0.0.1:0", Origins: []string{"*"}}, "--allow-origin"},
	} {
		if _, err := c.s.Open(nil); err == nil || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.s, err)
		}
	}
	s := Settings{Address: "127.0.0.1:0", Keys: keys, Certificate: certFile, CertificateKey: keyFile, Hosts: []string{"x.test"}}
	o, err := s.Open(nil)
	must(t, err)
	defer o.Listener.Close()
	if !strings.HasPrefix(o.URL(), "https://127.0.0.1:") || !o.Access.Loopback || o.Keys == nil || len(s.Files()) != 3 {
		t.Errorf("%+v %v", o, s.Files())
	}
}
