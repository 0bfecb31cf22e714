package apply

import (
	"strings"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
)

// Affected lists what the plan changes, for tasks without a file "paths": the
// first [format.HistoryPaths], and how many there are.
func (e *Engine) Affected() (list []format.Affected, count int) {
	list = e.AffectedAll()
	return list[:min(len(list), format.HistoryPaths)], len(list)
}

// AffectedAll lists what the plan changes.
func (e *Engine) AffectedAll() (list []format.Affected) {
	add := func(a format.Affected) { list = append(list, a) }
	goes := e.destinations()
	for _, d := range e.t.Order {
		for i := range e.t.Binds[d.Obj] {
			b := &e.t.Binds[d.Obj][i]
			if !b.Wrong {
				continue
			}
			a := format.Affected{Path: strings.TrimPrefix(e.pathAfter(d, goes)+"/"+b.Name, "/"), ExistedBefore: b.Occ.Ino != 0,
				ExistsAfter: b.Want != nil, Change: "replaced", Type: format.TypeName(b.OccMode)}
			switch {
			case b.Want == nil:
				a.Change = "deleted"
				a.Path = strings.TrimPrefix(e.path(d)+"/"+b.Name, "/")
			case b.Occ.Ino == 0:
				a.Change = "created"
			}
			if b.Want != nil {
				a.Type = format.TypeName(b.Want.Type)
			}
			add(a)
		}
		if d.Dirty && !d.Wanted && d.Place.Kind == layer.InTree && !d.IsDir() {
			add(format.Affected{Path: e.path(d), ExistedBefore: true, ExistsAfter: true, Change: "modified", Type: format.TypeName(d.Type)})
		}
	}
	return list
}

// destinations are the places that the plan has for objects that are somewhere else, or in the log, now.
func (e *Engine) destinations() map[*layer.Node]layer.Place {
	goes := map[*layer.Node]layer.Place{}
	for _, d := range e.t.Order {
		for i := range e.t.Binds[d.Obj] {
			b := &e.t.Binds[d.Obj][i]
			if _, known := goes[b.Want]; b.Wrong && b.Want != nil && !known {
				goes[b.Want] = layer.InDir(d.Obj, b.Name)
			}
		}
	}
	return goes
}
