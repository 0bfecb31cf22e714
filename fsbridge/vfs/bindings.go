package vfs

import "sync/atomic"

// bindingList has the names of one node; the zero List has none. Methods are safe for
// concurrent use.
type bindingList[N comparable] struct {
	first atomic.Pointer[bindingsBinding[N]]
}

// bindingsBinding is one name: an element of an immutable list.
type bindingsBinding[N comparable] struct {
	Parent N
	Name   string
	Next   *bindingsBinding[N]
}

// Load returns the newest name, or nil.
func (l *bindingList[N]) Load() *bindingsBinding[N] { return l.first.Load() }

// Bind notes a name. only says that there is no other: others are forgotten.
func (l *bindingList[N]) Bind(parent N, name string, only bool) {
	for {
		old := l.first.Load()
		if old != nil && old.is(parent, name) && (!only || old.Next == nil) {
			return
		}
		b := &bindingsBinding[N]{Parent: parent, Name: name}
		if !only {
			b.Next = without(old, parent, name)
		}
		if l.first.CompareAndSwap(old, b) {
			return
		}
	}
}

// Unbind forgets one name.
func (l *bindingList[N]) Unbind(parent N, name string) {
	for {
		old := l.first.Load()
		if l.first.CompareAndSwap(old, without(old, parent, name)) {
			return
		}
	}
}

// Move replaces one name by another.
func (l *bindingList[N]) Move(parent N, name string, newParent N, newName string) {
	for {
		old := l.first.Load()
		rest := without(without(old, parent, name), newParent, newName)
		if l.first.CompareAndSwap(old, &bindingsBinding[N]{Parent: newParent, Name: newName, Next: rest}) {
			return
		}
	}
}

// Has tells whether the name is in the list.
func (l *bindingList[N]) Has(parent N, name string) bool { return l.first.Load().has(parent, name) }

func (b *bindingsBinding[N]) is(parent N, name string) bool {
	return b.Parent == parent && b.Name == name
}

func (b *bindingsBinding[N]) has(parent N, name string) bool {
	for ; b != nil; b = b.Next {
		if b.is(parent, name) {
			return true
		}
	}
	return false
}

// without returns the list less one name. Lists are short: hard links.
func without[N comparable](b *bindingsBinding[N], parent N, name string) *bindingsBinding[N] {
	switch {
	case !b.has(parent, name):
		return b
	case b.is(parent, name):
		return b.Next
	}
	return &bindingsBinding[N]{Parent: b.Parent, Name: b.Name, Next: without(b.Next, parent, name)}
}
