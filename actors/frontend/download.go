package frontend

import (
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"strconv"

	"github.com/codeagent/sandbox/actors/api"
)

var errHead = errors.New("only the head is wanted")

// Download answers a request over HTTP with the file that read names. An error has answered nothing. If the file cannot be read to its end, the connection
// is cut, because the client must not take what it has for all of it.
func Download(w http.ResponseWriter, r *http.Request, live api.Viewer, read api.ReadPathRequest, log *slog.Logger) error {
	begun := false
	read.Open = func(i api.PathInfo) error {
		h := w.Header()
		h.Set("Content-Type", "application/octet-stream")
		if i.Size > 0 { // or it does not say: files of the proc file system
			h.Set("Content-Length", strconv.FormatInt(i.Size, 10))
		}
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": Valid(path.Base(read.Path))}))
		h.Set("Last-Modified", i.ModTime.UTC().Format(http.TimeFormat))
		if r.Method == http.MethodHead {
			return errHead
		}
		begun = true
		w.WriteHeader(http.StatusOK)
		return nil
	}
	err := live.ReadPath(r.Context(), read, w)
	switch {
	case errors.Is(err, errHead):
		return nil
	case err != nil && begun:
		log.Debug("a download was cut", "err", err)
		panic(http.ErrAbortHandler)
	}
	return err
}
