package frontend

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
)

// viewer has one file.
type viewer struct {
	api.Viewer
	info    api.PathInfo
	content string
	before  error // instead of anything
	after   error // of its end
}

func (v viewer) ReadPath(_ context.Context, r api.ReadPathRequest, out io.Writer) error {
	if v.before != nil {
		return v.before
	}
	if err := r.Open(v.info); err != nil {
		return err
	}
	_, err := io.WriteString(out, v.content)
	return errors.Join(err, v.after)
}

// TestDownload: a client has all of a file or knows that it has not, also of one that does not say how long it is.
func TestDownload(t *testing.T) {
	var v viewer
	failed := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := Download(w, r, v, api.ReadPathRequest{Path: "/proc/of\n it"}, slog.New(slog.DiscardHandler)); err != nil {
			failed <- err
			w.WriteHeader(HTTPStatus(err))
		}
	}))
	defer s.Close()
	for name, c := range map[string]struct {
		v       viewer
		length  int64 // 0: whatever HTTP makes of it
		content string
		cut     bool
	}{
		"a file":                     {viewer{info: api.PathInfo{Size: 4}, content: "text"}, 4, "text", false},
		"one that says nothing":      {viewer{content: "text"}, 0, "text", false},
		"an empty one":               {viewer{}, 0, "", false},
		"one that becomes shorter":   {viewer{info: api.PathInfo{Size: 9}, content: "text", after: io.ErrUnexpectedEOF}, 9, "text", true},
		"one that cannot be read on": {viewer{content: "text", after: io.ErrUnexpectedEOF}, 0, "text", true},
	} {
		v = c.v
		r, err := s.Client().Get(s.URL)
		if c.cut && err != nil { // before the head was sent
			continue
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if r.StatusCode != 200 || c.length > 0 && r.ContentLength != c.length || string(b) != c.content || (err != nil) != c.cut {
			t.Errorf("%s: %d, %d bytes announced, %q, %v", name, r.StatusCode, r.ContentLength, b, err)
		}
		head, err := s.Client().Head(s.URL)
		if err != nil || head.StatusCode != 200 || c.length > 0 && head.ContentLength != c.length || head.Header.Get("Content-Disposition") == "" {
			t.Errorf("head of %s: %v, %v", name, head, err)
		}
	}
	v = viewer{before: fs.ErrNotExist}
	r, err := s.Client().Get(s.URL)
	if err != nil || r.StatusCode != http.StatusNotFound || r.Header.Get("Content-Disposition") != "" {
		t.Errorf("%v, %v", r, err)
	}
	if err := <-failed; !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
