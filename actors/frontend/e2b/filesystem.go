package e2b

import (
	"context"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
)

// Messages of filesystem.Filesystem, as JSON has them.
type (
	pathRequest struct {
		Path        string `json:"path"`
		Depth       uint32 `json:"depth"`
		Source      string `json:"source"`
		Destination string `json:"destination"`
	}
	entryInfo struct {
		Name          string    `json:"name"`
		Type          string    `json:"type"`
		Path          string    `json:"path"`
		Size          string    `json:"size"` // as Protobuf's JSON has 64 bits
		Mode          uint32    `json:"mode"`
		Permissions   string    `json:"permissions"`
		Owner         string    `json:"owner"`
		Group         string    `json:"group"`
		ModifiedTime  time.Time `json:"modifiedTime"`
		SymlinkTarget string    `json:"symlinkTarget,omitempty"`
	}
	entryResponse struct {
		Entry entryInfo `json:"entry"`
	}
)

// maxListDepth is how deep a listing goes.
const maxListDepth = api.ViewDepth

// entryOf describes a path. A symlink has the type of what it leads to.
func entryOf(i api.PathInfo) entryInfo {
	e := entryInfo{
		Name: frontend.Valid(path.Base(i.Path)), Type: typeName(i.Type), Path: frontend.Valid(i.Path), Size: strconv.FormatInt(i.Size, 10), Mode: i.Mode & 0o777,
		Permissions: permissions(i), Owner: frontend.Valid(i.Owner), Group: frontend.Valid(i.Group), ModifiedTime: i.ModTime.UTC(),
	}
	if i.Type != api.PathSymlink {
		return e
	}
	if i.TargetType != "" {
		e.Type = typeName(i.TargetType)
	}
	e.SymlinkTarget = i.Target
	if !path.IsAbs(i.Target) {
		e.SymlinkTarget = path.Join(path.Dir(i.Path), i.Target)
	}
	e.SymlinkTarget = frontend.Valid(e.SymlinkTarget)
	return e
}

// typeName is what clients call a type.
func typeName(t string) string {
	switch t {
	case api.PathFile:
		return "FILE_TYPE_FILE"
	case api.PathDirectory:
		return "FILE_TYPE_DIRECTORY"
	case api.PathSymlink:
		return "FILE_TYPE_SYMLINK"
	}
	return "FILE_TYPE_UNSPECIFIED"
}

// permissions are the type and the mode as ls has them.
func permissions(i api.PathInfo) string {
	m := fs.FileMode(i.Mode & 0o777)
	switch i.Type {
	case api.PathDirectory:
		m |= fs.ModeDir
	case api.PathSymlink:
		m |= fs.ModeSymlink
	}
	return m.String()
}

// each makes a call about a path of one that takes an absolute one.
func (p *place) each(message []byte, do func(m pathRequest, abs string) (any, error)) (any, error) {
	var m pathRequest
	if err := wire.Decode(message, &m); err != nil {
		return nil, err
	}
	abs, err := p.path(m.Path)
	if err != nil {
		return nil, err
	}
	return do(m, abs)
}

// stat describes a path.
func (p *place) stat(ctx context.Context, _ string, message []byte) (any, error) {
	return p.each(message, func(_ pathRequest, abs string) (any, error) {
		i, err := p.live.StatPath(ctx, api.PathRequest{Path: abs})
		return entryResponse{entryOf(i)}, err
	})
}

// listDir lists a directory.
func (p *place) listDir(ctx context.Context, _ string, message []byte) (any, error) {
	return p.each(message, func(m pathRequest, abs string) (any, error) {
		l, err := p.live.ListPath(ctx, api.ListPathRequest{Path: abs, Depth: int(min(max(m.Depth, 1), maxListDepth))})
		if err != nil {
			return nil, err
		}
		if l.Truncated {
			return nil, wire.Fail(http.StatusRequestEntityTooLarge, "there are more than %d entries: list a part of it, or with less depth", api.ViewEntries)
		}
		out := struct {
			Entries []entryInfo `json:"entries"`
		}{make([]entryInfo, len(l.Entries))}
		for i, e := range l.Entries {
			out.Entries[i] = entryOf(e)
		}
		return out, nil
	})
}

// makeDir makes a directory.
func (p *place) makeDir(ctx context.Context, id string, message []byte) (any, error) {
	return p.each(message, func(_ pathRequest, abs string) (any, error) {
		defer p.started()()
		c, err := p.live.MakeDir(ctx, api.MakeDirRequest{Path: abs, Origin: origin(id, "make_dir")})
		if err == nil && c.Existed {
			err = wire.Fail(http.StatusConflict, "the directory is there already: %s", abs)
		}
		return entryResponse{entryOf(c.PathInfo)}, err
	})
}

// move renames.
func (p *place) move(ctx context.Context, id string, message []byte) (any, error) {
	return p.each(message, func(m pathRequest, _ string) (any, error) {
		from, err := p.path(m.Source)
		if err != nil {
			return nil, err
		}
		to, err := p.path(m.Destination)
		if err != nil {
			return nil, err
		}
		defer p.started()()
		c, err := p.live.MovePath(ctx, api.MovePathRequest{From: from, To: to, Origin: origin(id, "move")})
		return entryResponse{entryOf(c.PathInfo)}, err
	})
}

// remove removes a path, if it is there.
func (p *place) remove(ctx context.Context, id string, message []byte) (any, error) {
	return p.each(message, func(_ pathRequest, abs string) (any, error) {
		defer p.started()()
		_, err := p.live.RemovePath(ctx, api.RemovePathRequest{Path: abs, Recursive: true, Origin: origin(id, "remove")})
		if missing(err) {
			err = nil
		}
		return struct{}{}, err
	})
}
