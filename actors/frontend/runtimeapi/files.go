package runtimeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strings"
	"syscall"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/messages/lexical"
)

// maxUpload is how long an upload is, in bytes: no limit but the disk's, and one that cannot be a mistake.
const maxUpload = 1 << 40

// where makes a path of a client absolute: it is relative to the folder, also if it begins with a slash.
func (s *Server) where(name string) (string, error) {
	abs := path.Join(s.home, strings.TrimLeft(name, "/"))
	if strings.IndexByte(name, 0) >= 0 || !lexical.Within(abs, s.home) {
		return "", denied()
	}
	return abs, nil
}

// beginAt begins a request about a path of a client; end ends it.
func (s *Server) beginAt(r *http.Request, name string) (ctx context.Context, abs string, end func(), err error) {
	if abs, err = s.where(name); err != nil {
		return nil, "", nil, err
	}
	ctx, _, end, err = s.clients.Begin(r, s.o.Live)
	return ctx, abs, end, err
}

// is tells whether an error is one of some.
func is(err error, some ...error) bool {
	for _, e := range some {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// download gives a file.
func (s *Server) download(w http.ResponseWriter, r *http.Request, name string) error {
	ctx, abs, end, err := s.beginAt(r, name)
	if err != nil {
		return err
	}
	defer end()
	err = frontend.Download(ctx, w, r, s.o.Live, api.ReadPathRequest{Path: abs, Within: s.home}, s.o.Logger, frontendName)
	if is(err, fs.ErrNotExist, api.ErrNotRegular, syscall.EISDIR, syscall.ENOTDIR) {
		return fail(http.StatusNotFound, "there is no such file")
	}
	return err
}

// entry is what a listing says of a file.
type entry struct {
	Name    string  `json:"name"`
	Size    int64   `json:"size"` // in bytes
	Type    string  `json:"type"` // file or directory: clients know no other
	ModTime float64 `json:"mod_time"`
}

// list lists a directory. A symlink has the type of what it leads to.
func (s *Server) list(w http.ResponseWriter, r *http.Request, name string) error {
	ctx, abs, end, err := s.beginAt(r, name)
	if err != nil {
		return err
	}
	defer end()
	l, err := s.o.Live.ListPath(ctx, api.ListPathRequest{Path: abs, Within: s.home})
	switch {
	case is(err, fs.ErrNotExist, syscall.ENOTDIR):
		return fail(http.StatusNotFound, "there is no such directory")
	case err != nil:
		return err
	case l.Truncated:
		return fail(http.StatusRequestEntityTooLarge, "there are more than %d entries", api.ViewEntries)
	}
	entries := make([]entry, len(l.Entries))
	for i, e := range l.Entries {
		entries[i] = entry{frontend.Valid(path.Base(e.Path)), e.Size, "file", float64(e.ModTime.UnixNano()) / 1e9}
		if e.Type == api.PathDirectory || e.TargetType == api.PathDirectory {
			entries[i].Type = "directory"
		}
	}
	answer(w, http.StatusOK, entries)
	return nil
}

// exists tells whether there is something at a path. A symlink that leads nowhere is nothing.
func (s *Server) exists(w http.ResponseWriter, r *http.Request, name string) error {
	ctx, abs, end, err := s.beginAt(r, name)
	if err != nil {
		return err
	}
	defer end()
	_, err = s.o.Live.StatPath(ctx, api.PathRequest{Path: abs, Within: s.home, Follow: true})
	there := err == nil
	if err != nil && !is(err, fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG) {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"path": frontend.Valid(name), "exists": there})
	return nil
}

// upload writes the file of a form. It is called as its part says. Nothing is changed unless the form has come as a whole.
func (s *Server) upload(w http.ResponseWriter, r *http.Request, _ string) error {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return fail(http.StatusUnprocessableEntity, "the body has to be a form (multipart/form-data) with a file, whose part is called \"file\"")
	}
	ctx, id, end, err := s.clients.Begin(r, s.o.Live)
	if err != nil {
		return err
	}
	defer end()
	in := &form{parts: multipart.NewReader(s.body(w, r, maxUpload), params["boundary"])}
	name, err := in.file()
	if err != nil {
		return err
	}
	abs, err := s.where(name)
	if err != nil {
		return err
	}
	if abs == s.home || strings.HasSuffix(name, "/") {
		return fail(http.StatusBadRequest, "the part's filename names no file")
	}
	_, err = s.o.Live.WritePath(ctx, api.WritePathRequest{Path: abs, Within: s.home, Origin: origin(id, "upload")}, in)
	switch {
	case in.err != nil:
		return in.err
	case err != nil:
		return err
	}
	answer(w, http.StatusOK, map[string]string{"message": fmt.Sprintf("%s: uploaded successfully", frontend.Valid(name))})
	return nil
}

// form is an upload. As a reader it is the content of its file, which ends only when the form has.
type form struct {
	parts *multipart.Reader
	part  *multipart.Part
	err   error // why it has not come as a whole
	over  bool
}

// file goes to the file, and returns its name. Other parts are left alone.
func (f *form) file() (string, error) {
	for {
		part, err := f.parts.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return "", fail(http.StatusUnprocessableEntity, "the form has no file: its part has to be called \"file\", and to have a filename")
		case err != nil:
			return "", uncut(err)
		}
		if name := frontend.PartName(part); part.FormName() == "file" && name != "" {
			f.part = part
			return name, nil
		}
	}
}

// Read implements [io.Reader].
func (f *form) Read(b []byte) (int, error) {
	if f.over {
		return 0, io.EOF
	}
	n, err := f.part.Read(b)
	if errors.Is(err, io.EOF) {
		err = f.rest()
	}
	switch {
	case errors.Is(err, io.EOF):
		f.over = true
	case err != nil:
		f.err = uncut(err)
		err = f.err
	}
	return n, err
}

// rest looks at what follows the file; io.EOF: it is the end, and there is no other file.
func (f *form) rest() error {
	for {
		part, err := f.parts.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return io.EOF
		case err != nil:
			return err
		case part.FormName() == "file":
			return fail(http.StatusUnprocessableEntity, "the form has more than one file: send one after the other")
		}
	}
}

// uncut is the error of a body that has not come as a whole.
func uncut(err error) error {
	if p := describe(err); p.status != http.StatusInternalServerError {
		return p
	}
	return fail(http.StatusBadRequest, "the request did not come as a whole, and nothing was changed: %s", err)
}
