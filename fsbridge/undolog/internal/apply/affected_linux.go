package apply

import (
	"strings"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/base"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
)

// Affected lists what the plan changes, for tasks without a file "paths": the
// first [base.HistoryPaths], and how many there are.
func (e *Engine) Affected() (list []base.Affected, count int) {
	list = e.AffectedAll()
	return list[:min(len(list), base.HistoryPaths)], len(list)
}

// AffectedAll lists what the plan changes.
func (e *Engine) AffectedAll() (list []base.Affected) {
	add := func(a base.Affected) { list = append(list, a) }
	for _, d := range e.t.Order {
		for i := range e.t.Binds[d.Obj] {
			b := &e.t.Binds[d.Obj][i]
			if !b.Wrong {
				continue
			}
			a := base.Affected{Path: strings.TrimPrefix(e.path(d)+"/"+b.Name, "/"), ExistedBefore: b.Occ.Ino != 0,
				ExistsAfter: b.Want != nil, Change: "replaced", Type: base.TypeName(b.OccMode)}
			switch {
			case b.Want == nil:
				a.Change = "deleted"
			case b.Occ.Ino == 0:
				a.Change = "created"
			}
			if b.Want != nil {
				a.Type = base.TypeName(b.Want.Type)
			}
			add(a)
		}
		if d.Dirty && !d.Wanted && d.Place.Kind == layer.InTree && !d.IsDir() {
			add(base.Affected{Path: e.path(d), ExistedBefore: true, ExistsAfter: true, Change: "modified", Type: base.TypeName(d.Type)})
		}
	}
	return list
}
