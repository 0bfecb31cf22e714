package undolog

// journey tells how far an undo or a redo of several steps is: of each step as many of its
// paths as it says that parts are done.
type journey struct {
	tell         Progress
	before       int64 // paths of the steps that are done
	paths, total int64 // of the step under way, and of all
}

// travelling begins to tell of steps; tell may be nil.
func travelling(tell Progress, steps []*stepEntry) *journey {
	j := &journey{tell: tell}
	for _, s := range steps {
		j.total += pathsOf(s)
	}
	return j
}

func pathsOf(s *stepEntry) int64 { return int64(max(s.AffectedCount, 1)) }

// step returns what is to be told of the parts of s, which is next; nil if nobody asks.
func (j *journey) step(s *stepEntry) Progress {
	j.before += j.paths
	j.paths = pathsOf(s)
	if j.tell == nil {
		return nil
	}
	before, paths := j.before, j.paths
	j.tell(before, j.total)
	return func(done, total int64) { j.tell(before+share(paths, done, total), j.total) }
}

// of returns what is to be told of the parts of a task that has so many paths; nil if nobody
// asks.
func (p Progress) of(paths *int64) Progress {
	if p == nil {
		return nil
	}
	return func(done, total int64) { p(share(*paths, done, total), *paths) }
}

// share is how many paths done of total parts are.
func share(paths, done, total int64) int64 {
	if total <= 0 {
		return 0
	}
	return int64(float64(paths) * float64(done) / float64(total))
}
