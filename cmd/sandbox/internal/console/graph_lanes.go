package console

import (
	"strings"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

const (
	manyLanes = 8 // beside each other, if there is room
	laneWidth = 3
	laneShare = 4 // of the terminal's width all lanes take one part of so many
)

// lanes say which run has which lane.
type lanes struct {
	width int // of all lanes and the first column
	count int
	runs  map[undolog.StepID]*run
	rows  []undolog.StepID // the run of each entry, 0 if it has none
}

// run is an agent's run in the list.
type run struct {
	first, last int // of the entries
	open        bool
	lane        int // -1: there was no room
}

// mostLanes is how many lanes there is room for.
func (p *picture) mostLanes() int {
	if p.Width == 0 {
		return manyLanes
	}
	return min(manyLanes, p.Width/laneShare/laneWidth)
}

// lanesOf gives each run the leftmost lane that is free as long as it lasts.
func lanesOf(entries []undolog.Entry, most int) lanes {
	l := lanes{width: 1, runs: map[undolog.StepID]*run{}, rows: make([]undolog.StepID, len(entries))}
	for i, e := range entries {
		if e.Group == 0 || !isStep(e) {
			continue
		}
		l.rows[i] = e.Group
		r := l.runs[e.Group]
		if r == nil {
			r = &run{first: i, lane: -1}
			l.runs[e.Group] = r
		}
		r.last, r.open = i, !e.GroupStart
	}
	free := make([]int, most) // from which entry on
	for i, g := range l.rows {
		r := l.runs[g]
		if g == 0 || r.first != i {
			continue
		}
		for k := range free {
			if free[k] <= i {
				r.lane, free[k] = k, r.last+1
				l.count = max(l.count, k+1)
				break
			}
		}
	}
	l.width += l.count * laneWidth
	return l
}

// names reports whether the number of its run stands beside entry i: beside the newest
// step, or beside each where no lane joins them.
func (l lanes) names(i int) bool {
	r := l.runs[l.rows[i]]
	return r != nil && (r.lane < 0 || r.first == i)
}

// laneCells are the lanes at entry i.
func (p *picture) laneCells(i int, e undolog.Entry, kind Kind) []piece {
	if blocked(e) {
		kind = KindBarrier
	}
	paint := func(s string) string { return p.Paint.Kind(kind, s) }
	if e.Type == undolog.TypeBarrier {
		return []piece{{p.glyphs.kinds[kind] + strings.Repeat(p.glyphs.rule, p.lanes.width-1), paint}}
	}
	cells := make([]string, p.lanes.count)
	own := -1
	if r := p.lanes.runs[p.lanes.rows[i]]; r != nil && r.lane >= 0 {
		own, p.runs[r.lane] = r.lane, r
	}
	for k, r := range p.runs {
		switch {
		case r == nil || i > r.last:
		case k == own:
			cells[k] = p.joint(i, r)
		default:
			cells[k] = p.glyphs.pass
		}
	}
	node := piece{p.glyphs.kinds[kind], paint}
	list := []piece{{text: " "}}
	if own < 0 {
		list[0] = node
	}
	for k, c := range cells {
		if c == "" {
			c = " "
		}
		list = append(list, piece{" " + c, p.Paint.Dim})
		if k == own {
			list = append(list, node)
		} else {
			list = append(list, piece{text: " "})
		}
	}
	return list
}

// joint is the line of a run at one of its own steps.
func (p *picture) joint(i int, r *run) string {
	above, below := i > r.first, i < r.last || r.open
	switch {
	case above && below:
		return p.glyphs.middle
	case above:
		return p.glyphs.last
	case below:
		return p.glyphs.first
	}
	return p.glyphs.alone
}
