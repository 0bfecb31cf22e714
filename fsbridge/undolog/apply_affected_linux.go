package undolog

import (
	"strings"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/base"
)

// affected lists what the plan changes, for tasks without a file "paths": the
// first [base.HistoryPaths], and how many there are.
func (e *engine) affected() (list []Affected, count int) {
	list = e.affectedAll()
	return list[:min(len(list), base.HistoryPaths)], len(list)
}

func (e *engine) affectedAll() (list []base.Affected) {
	add := func(a base.Affected) { list = append(list, a) }
	for _, d := range e.t.order {
		for i := range e.t.binds[d.Obj] {
			b := &e.t.binds[d.Obj][i]
			if !b.wrong {
				continue
			}
			a := base.Affected{Path: strings.TrimPrefix(e.path(d)+"/"+b.name, "/"), ExistedBefore: b.occ.Ino != 0,
				ExistsAfter: b.want != nil, Change: "replaced", Type: base.TypeName(b.occMode)}
			switch {
			case b.want == nil:
				a.Change = "deleted"
			case b.occ.Ino == 0:
				a.Change = "created"
			}
			if b.want != nil {
				a.Type = base.TypeName(b.want.typ)
			}
			add(a)
		}
		if d.dirty && !d.wanted && d.place.kind == inTree && !d.isDir() {
			add(base.Affected{Path: e.path(d), ExistedBefore: true, ExistsAfter: true, Change: "modified", Type: base.TypeName(d.typ)})
		}
	}
	return list
}
