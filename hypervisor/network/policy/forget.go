package policy

// Forget takes a person's answer to the question back: it is asked again. A connection that was
// opened stays; so does an address that another name or a rule opens.
func (e *Engine) Forget(q Question) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.decided.m, q.Subject())
	if !q.Lookup {
		return
	}
	for _, a := range e.learnt.m {
		if l, ok := a.value[q.Domain]; ok && l.granted == byPerson {
			l.granted = ""
			a.value[q.Domain] = l
		}
	}
}
