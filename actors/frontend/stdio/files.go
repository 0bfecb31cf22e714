package stdio

import (
	"context"
	"fmt"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
)

func list(ctx context.Context, sess *session, p *api.ListRequest) (ListResult, error) {
	switch {
	case p.Depth < 0 || p.Depth > 100:
		return ListResult{}, fieldError(InvalidField, "depth", "must be between 1 and 100")
	case p.Limit < 0 || p.Limit > MaxEntries:
		return ListResult{}, fieldError(InvalidField, "limit", "must be between 1 and %d", MaxEntries)
	}
	l, err := sess.live.List(ctx, *p)
	if err != nil {
		return ListResult{}, err
	}
	out := ListResult{Path: l.Path, Entries: make([]DirEntry, len(l.Entries)), Truncated: l.Truncated}
	for i, e := range l.Entries {
		out.Entries[i] = DirEntry{e.Path, e.Type, e.Size, mode(e.Mode), e.ModTime, e.Target, e.Escaped}
	}
	return out, nil
}

func mode(m uint32) string { return fmt.Sprintf("%04o", m) }

func read(ctx context.Context, sess *session, p *api.ReadFileRequest) (ReadResult, error) {
	switch {
	case p.Path == "":
		return ReadResult{}, fieldError(InvalidField, "path", "is empty")
	case p.Offset < 0:
		return ReadResult{}, fieldError(InvalidField, "offset", "must not be negative")
	case p.Limit < 0 || p.Limit > MaxContent:
		return ReadResult{}, fieldError(InvalidField, "limit", "must be between 1 and %d", MaxContent)
	}
	p.MaxBytes = MaxContent
	f, err := sess.live.ReadFile(ctx, *p)
	if err != nil {
		return ReadResult{}, err
	}
	data := f.Data
	if whole := frontend.Whole(data); f.Truncated && len(whole) > 0 {
		data = whole // a character that is cut comes with the next part
	}
	out := ReadResult{
		Path: f.Path, Offset: f.Offset, Length: int64(len(data)), Size: f.Size,
		Truncated: f.Truncated, Mode: mode(f.Mode), ModifiedAt: f.ModTime,
	}
	if out.Content, out.Encoding = text(data); out.Encoding == "" {
		out.Encoding = "utf-8"
	}
	return out, nil
}

func fsStatus(ctx context.Context, sess *session, p *DirectoryRequest) (FSStatusResult, error) {
	dir, err := sess.path(p.Directory)
	if err != nil {
		return FSStatusResult{}, err
	}
	st, err := sess.live.Status(ctx)
	if err != nil {
		return FSStatusResult{}, err
	}
	out := FSStatusResult{Isolation: st.Isolation, Machine: st.Machine, Warnings: []FSWarning{}}
	for _, d := range st.Directories {
		if d.Path != dir {
			continue
		}
		out.Directory = directoryInfo(d)
		if d.Bridge != nil {
			out.Directory.Bridge.RequestCounts = d.Bridge.Requests
		}
	}
	// A folder whose log cannot be used has none; its state says why.
	if limits, err := sess.live.Limits(ctx, p.Directory); err == nil {
		out.Limits = new(limitsResult(limits))
	}
	warnings, err := sess.live.Warnings(ctx, p.Directory)
	for _, w := range warnings {
		f := FSWarning{Code: string(w.Code), Message: w.Message}
		for _, id := range w.Steps {
			f.Steps = append(f.Steps, int64(id))
		}
		out.Warnings = append(out.Warnings, f)
	}
	return out, err
}
