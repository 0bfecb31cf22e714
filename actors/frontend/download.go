package frontend

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"strconv"

	"github.com/codeagent/sandbox/actors/api"
)

// Download answers with a file that is read in a session. An error says why nothing was answered yet: then it is the caller's to answer. What fails later ends the connection, so that the client does not take what it has for all of it;
// log hears of that, with the name of the frontend.
func Download(ctx context.Context, w http.ResponseWriter, r *http.Request, v api.Viewer, q api.ReadPathRequest, log *slog.Logger, name string) error {
	out := &body{ResponseWriter: w}
	q.Open = func(i api.PathInfo) error {
		h := w.Header()
		h.Set("Content-Type", "application/octet-stream")
		if i.Size > 0 { // or it does not say: files of the proc file system
			h.Set("Content-Length", strconv.FormatInt(i.Size, 10))
		}
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": Valid(path.Base(q.Path))}))
		h.Set("Last-Modified", i.ModTime.UTC().Format(http.TimeFormat))
		if r.Method == http.MethodHead {
			return errHead
		}
		return nil
	}
	err := v.ReadPath(ctx, q, out)
	switch {
	case err == nil, errors.Is(err, errHead):
		return nil
	case out.begun:
		log.Debug("a download was cut", "component", name, "err", err)
		panic(http.ErrAbortHandler)
	}
	for _, name := range []string{"Content-Type", "Content-Length", "Content-Disposition", "Last-Modified"} {
		w.Header().Del(name)
	}
	return err
}

var errHead = errors.New("only the head is wanted")

// body is what follows the head of an answer, and knows whether it has begun.
type body struct {
	http.ResponseWriter
	begun bool
}

// Write implements [io.Writer].
func (b *body) Write(p []byte) (int, error) {
	b.begun = true
	return b.ResponseWriter.Write(p)
}

// ReadFrom implements [io.ReaderFrom]: by it the kernel sends files without us.
func (b *body) ReadFrom(r io.Reader) (int64, error) {
	b.begun = true
	return io.Copy(b.ResponseWriter, r)
}
