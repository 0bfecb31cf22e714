package e2b

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strings"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
)

const (
	// maxFiles is how many files an upload has, and maxSources how many files are put together at once.
	maxFiles, maxSources = 1000, 1000
	// maxUpload is how long an upload is, in bytes: no limit but the disk's, and one that cannot be a mistake.
	maxUpload = 1 << 40
)

// written is what clients are told of a file that they have written.
type written struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Path string `json:"path"`
}

func writtenOf(i api.PathInfo) written {
	return written{frontend.Valid(path.Base(i.Path)), "file", frontend.Valid(i.Path)}
}

// admitFile tells whether a request for a file may be answered: by its token, or by the signature of its address.
func (s *Server) admitFile(r *http.Request, p *place) error {
	sig, err := signatureOf(r)
	if err != nil {
		return err
	}
	if sig.given == "" {
		if err := p.admit(r); err != nil {
			return err
		}
	} else {
		p.mu.Lock()
		token := p.token
		p.mu.Unlock()
		if err := sig.valid(token, s.o.Clock.Now()); err != nil {
			return err
		}
	}
	if err := checkUser(sig.user); err != nil {
		return err
	}
	return checkCaller(r)
}

// download gives a file.
func (s *Server) download(w http.ResponseWriter, r *http.Request) error {
	p := placeOf(r)
	if err := s.admitFile(r, p); err != nil {
		return err
	}
	ctx, _, end, err := s.begin(r, p.live)
	if err != nil {
		return err
	}
	defer end()
	abs, err := p.path(r.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	return frontend.Download(ctx, w, r, p.live, api.ReadPathRequest{Path: abs}, s.o.Logger, frontendName)
}

// upload writes files.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) error {
	p := placeOf(r)
	if err := s.admitFile(r, p); err != nil {
		return err
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Metadata-") {
			return wire.Fail(http.StatusNotImplemented, "%s: files have no metadata here; leave it out", frontend.Short([]byte(name)))
		}
	}
	ctx, id, end, err := s.begin(r, p.live)
	if err != nil {
		return err
	}
	defer end()
	var in io.Reader = s.bounded(w, r, maxUpload)
	switch e := r.Header.Get("Content-Encoding"); {
	case strings.EqualFold(e, "gzip"):
		z, err := gzip.NewReader(in)
		if err != nil {
			return wire.Fail(http.StatusBadRequest, "the body is no gzip: %s", err)
		}
		in = z
	case e != "" && !strings.EqualFold(e, "identity"):
		return wire.Fail(http.StatusUnsupportedMediaType, "Content-Encoding %q: send it as it is, or with gzip", frontend.Short([]byte(e)))
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return wire.Fail(http.StatusBadRequest, "the Content-Type cannot be read: %s", err)
	}
	to := r.URL.Query().Get("path")
	var files []written
	switch kind {
	case "multipart/form-data":
		files, err = p.writeParts(ctx, id, multipart.NewReader(in, params["boundary"]), to)
	case "application/octet-stream":
		if to == "" {
			return wire.Fail(http.StatusBadRequest, "path is missing")
		}
		var f written
		f, err = p.write(ctx, id, to, in)
		files = []written{f}
	default:
		err = wire.Fail(http.StatusUnsupportedMediaType, "Content-Type %q: send multipart/form-data or application/octet-stream", frontend.Short([]byte(kind)))
	}
	if err != nil {
		return err
	}
	wire.Answer(w, http.StatusOK, files)
	return nil
}

// writeParts writes the files of a form. A file is called as its part says, or as the address says if there is one part.
func (p *place) writeParts(ctx context.Context, id string, parts *multipart.Reader, to string) (files []written, err error) {
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, cut(err)
		}
		if part.FormName() != "file" {
			continue
		}
		if len(files) >= maxFiles {
			return nil, wire.Fail(http.StatusRequestEntityTooLarge, "more than %d files at once", maxFiles)
		}
		name := to
		if name == "" {
			name = frontend.PartName(part)
		}
		switch {
		case name == "":
			return nil, wire.Fail(http.StatusBadRequest, "path is missing")
		case to != "" && len(files) > 0:
			return nil, wire.Fail(http.StatusBadRequest, "there are several files: leave path out, and name each in its part")
		}
		f, err := p.write(ctx, id, name, part)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, wire.Fail(http.StatusBadRequest, "the form has no file: its part has to be called \"file\"")
	}
	return files, nil
}

// write writes one file.
func (p *place) write(ctx context.Context, id, name string, in io.Reader) (written, error) {
	abs, err := p.path(name)
	if err != nil {
		return written{}, err
	}
	from := &source{r: in}
	defer p.started()()
	c, err := p.live.WritePath(ctx, api.WritePathRequest{Path: abs, Origin: origin(id, "write_file")}, from)
	if from.err != nil {
		return written{}, cut(from.err)
	}
	return writtenOf(c.PathInfo), err
}

// source remembers why nothing more came.
type source struct {
	r   io.Reader
	err error
}

// Read implements [io.Reader].
func (s *source) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// cut says that a body did not come as a whole.
func cut(err error) error {
	if describe(err).Status != http.StatusInternalServerError {
		return err
	}
	return wire.Fail(http.StatusBadRequest, "the upload did not come as a whole, and nothing was changed by its last file: %s", err)
}

// compose puts files together to one, and removes them.
func (s *Server) compose(w http.ResponseWriter, r *http.Request) error {
	p := placeOf(r)
	if err := p.admit(r); err != nil {
		return err
	}
	message, err := io.ReadAll(s.bounded(w, r, maxMessage))
	if err != nil {
		return err
	}
	var m struct {
		Sources     []string `json:"source_paths"`
		Destination string   `json:"destination"`
		Username    string   `json:"username"`
	}
	if err := errors.Join(wire.Decode(message, &m), checkUser(m.Username)); err != nil {
		return err
	}
	if len(m.Sources) == 0 || len(m.Sources) > maxSources || m.Destination == "" {
		return wire.Fail(http.StatusBadRequest, "give 1 to %d source_paths, and a destination", maxSources)
	}
	ctx, id, end, err := s.begin(r, p.live)
	if err != nil {
		return err
	}
	defer end()
	sources := make([]string, len(m.Sources))
	for i, name := range m.Sources {
		if sources[i], err = p.path(name); err != nil {
			return err
		}
	}
	read, to := io.Pipe()
	go func() {
		for _, abs := range sources {
			if err := p.live.ReadPath(ctx, api.ReadPathRequest{Path: abs}, to); err != nil {
				_ = to.CloseWithError(err)
				return
			}
		}
		_ = to.Close()
	}()
	f, err := p.write(ctx, id, m.Destination, read)
	_ = read.Close()
	if err != nil {
		return err
	}
	for _, abs := range sources {
		if abs == f.Path {
			continue
		}
		if _, err := p.live.RemovePath(ctx, api.RemovePathRequest{Path: abs, Origin: origin(id, "remove")}); err != nil && !missing(err) {
			return err
		}
	}
	wire.Answer(w, http.StatusOK, f)
	return nil
}
