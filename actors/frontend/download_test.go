package frontend_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
)

// reader is a session in which a file can be read.
type reader struct {
	api.Viewer // panics where a test does not expect a call
	size       int64
	text       string
	err        error // after text
}

func (v reader) ReadPath(_ context.Context, q api.ReadPathRequest, out io.Writer) error {
	if err := q.Open(api.PathInfo{Type: api.PathFile, Size: v.size}); err != nil {
		return err
	}
	if v.text != "" {
		if _, err := io.WriteString(out, v.text); err != nil {
			return err
		}
	}
	return v.err
}

// TestDownload: a file that cannot be read is an answer, as long as nothing else was answered; one that ends too early ends the connection.
func TestDownload(t *testing.T) {
	for _, c := range []struct {
		name, method, want string
		v                  reader
		status             int
		cut                bool
	}{
		{"whole", "GET", "text", reader{size: 4, text: "text"}, 200, false},
		{"empty", "GET", "", reader{}, 200, false},
		{"of no known length", "GET", "text", reader{text: "text"}, 200, false},
		{"head", "HEAD", "", reader{size: 4, text: "text"}, 200, false},
		{"unreadable", "GET", syscall.EIO.Error(), reader{size: 4, err: syscall.EIO}, 500, false},
		{"cut", "GET", "", reader{size: 4, text: "te", err: syscall.EIO}, 200, true},
		{"of no known length, and cut", "GET", "", reader{text: "te", err: syscall.EIO}, 200, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				err := frontend.Download(r.Context(), w, r, c.v, api.ReadPathRequest{Path: "/f"}, slog.New(slog.DiscardHandler), "test")
				if err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
				}
			}))
			defer s.Close()
			req, err := http.NewRequestWithContext(t.Context(), c.method, s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := s.Client().Do(req)
			if c.cut && err != nil {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			if c.cut {
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%q, %v", b, err)
				}
				return
			}
			if got := string(b); err != nil || res.StatusCode != c.status || got != c.want && got != c.want+"\n" {
				t.Errorf("%d %q, %v", res.StatusCode, b, err)
			}
		})
	}
}
