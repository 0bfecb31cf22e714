package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Undo undoes the newest steps of a folder, and what the same commands changed in the folders that belong together with
// it: in the git directory of its worktree, and in other worktrees of that.
func (l *Launcher) Undo(ctx context.Context, s api.Service, d api.Directory, r api.UndoRequest) (api.UndoResult, error) {
	return l.whole(ctx, s, d, r, api.Service.Undo, actors.UndoTogether)
}

// Redo takes such an undo back.
func (l *Launcher) Redo(ctx context.Context, s api.Service, d api.Directory, r api.UndoRequest) (api.UndoResult, error) {
	return l.whole(ctx, s, d, r, api.Service.Redo, actors.RedoTogether)
}

func (l *Launcher) whole(ctx context.Context, s api.Service, d api.Directory, r api.UndoRequest,
	alone func(api.Service, context.Context, api.UndoRequest) (api.UndoResult, error),
	do func(context.Context, []actors.Folder, api.UndoRequest) (api.UndoResult, error)) (res api.UndoResult, err error) {
	r.Directory = d.Path
	if r.AbortOpen || r.OnlyFolder || l.Conf.Undo.Dir != "" { // the session knows its own folders
		return alone(s, ctx, r)
	}
	partners, err := l.partners(ctx, s, d, r)
	if err != nil {
		return res, err
	}
	if len(partners) == 0 {
		return alone(s, ctx, r)
	}
	folders := []actors.Folder{{Path: d.Path, History: s}}
	for _, p := range partners {
		o, oerr := l.ServiceOf(ctx, p)
		if oerr != nil {
			return res, fmt.Errorf("steps here may have changed %s, too, the history of which cannot be opened: %w; --only-folder takes one folder alone", p.Path, oerr)
		}
		defer func() { err = errors.Join(err, o.Close(ctx)) }()
		folders = append(folders, actors.Folder{Path: p.Path, History: o})
	}
	return do(ctx, folders, r)
}

// partners are the folders whose histories may have parts of the steps that are next in d.
func (l *Launcher) partners(ctx context.Context, s api.Service, d api.Directory, r api.UndoRequest) (list []api.Directory, err error) {
	entries, err := s.History(ctx, api.HistoryRequest{Directory: d.Path, Undone: true})
	if err != nil {
		return nil, err
	}
	var paths []string
	if git, ok := l.Partner(d); ok {
		paths = append(paths, git.Path)
	}
	for i, e := range slices.DeleteFunc(entries, func(e undolog.Entry) bool { return len(e.Folders) == 0 }) {
		if r.Group == 0 && r.To == "" && !e.Undone && i > max(r.Count, 1) {
			break
		}
		paths = append(paths, e.Folders...)
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		p, verr := actors.ValidateDirectory(api.Directory{Path: path}, "")
		if verr != nil || p.Path == d.Path || lexical.Within(p.Path, d.Path) || lexical.Within(d.Path, p.Path) {
			continue
		}
		if _, serr := os.Lstat(p.UndoDir); serr == nil { // else nothing of it is kept
			list = append(list, p)
		}
	}
	return list, nil
}

// Mark does what r asks for, also in the git directory of the folder's worktree.
func (l *Launcher) Mark(ctx context.Context, s api.Service, d api.Directory, r api.MarkRequest) ([]undolog.Mark, error) {
	partner, ok := l.Partner(d)
	if !ok || r.Name == "" {
		return s.Mark(ctx, r)
	}
	r.OnlyFolder = true
	list, err := s.Mark(ctx, r)
	if err != nil {
		return list, err
	}
	git, err := l.ServiceOf(ctx, partner)
	if err != nil {
		return list, err
	}
	r.Directory = partner.Path
	_, err = git.Mark(ctx, r)
	return list, errors.Join(err, git.Close(ctx))
}

// Partner is the folder whose history goes with that of dir, because it is the git
// directory of dir's worktree; false if there is none, or if a flag has named the history.
func (l *Launcher) Partner(dir api.Directory) (api.Directory, bool) {
	if l.Conf.Undo.Dir != "" {
		return api.Directory{}, false
	}
	path, err := GitDirectory(dir.Path)
	if err != nil || path == "" {
		return api.Directory{}, false
	}
	d, err := actors.ValidateDirectory(api.Directory{Path: path}, "")
	return d, err == nil
}
