package store

// PackWork tells how far the compression of several steps is. One goroutine uses it.
type PackWork struct {
	Tell   func(done, total int64) // in bytes; nil: nobody asks
	Total  int64                   // bytes that there are
	before int64                   // bytes of the steps that are done
}

// Read is told how many bytes of the step under way were read.
func (w *PackWork) Read(bytes int64) {
	if w.Tell != nil {
		w.Tell(min(w.before+bytes, w.Total), w.Total)
	}
}

// Next is called when a step with so many bytes is done.
func (w *PackWork) Next(bytes int64) {
	w.before += bytes
	w.Read(0)
}
