package ui

import (
	"bytes"
	"errors"
	"net/http"
	"slices"

	"github.com/codeagent/sandbox/actors/api"
)

// maxPicture is how large a picture is shown, in bytes.
const maxPicture = 10 << 20

// pictures are what a browser may be given of a hostile file, by its content. Others can hold scripts.
var pictures = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

var errNoPicture = &problem{http.StatusUnsupportedMediaType, "unsupported", "only pictures of at most 10 MiB are shown (PNG, JPEG, GIF, WebP)", "'sandbox cat' prints any file"}

// bounded keeps what is written, and refuses to keep too much.
type bounded struct {
	buf  bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > b.most {
		return 0, errNoPicture
	}
	return b.buf.Write(p)
}

// content is a picture as it was before or after a step.
func (s *Server) content(w http.ResponseWriter, r *http.Request) error {
	id, path, err := stepAndPath(r)
	if err != nil {
		return err
	}
	side := r.URL.Query().Get("side")
	if side != "before" && side != "after" {
		return &problem{http.StatusBadRequest, "invalid_field", "side is before or after", ""}
	}
	f, c, err := s.open(r)
	if err != nil {
		return err
	}
	defer s.shut(r, c)
	b := &bounded{most: maxPicture}
	if err := c.Content(r.Context(), api.ContentRequest{Directory: f.Path, Step: id, Path: path, After: side == "after"}, b); err != nil {
		if errors.Is(err, errNoPicture) {
			return errNoPicture
		}
		return err
	}
	kind := http.DetectContentType(b.buf.Bytes())
	if !slices.Contains(pictures, kind) {
		return errNoPicture
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(b.buf.Bytes())
	return nil
}
