package mix

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// event is something that is done to a folder. What it is done to follows from the state that the folder is in, so that a history without one of
// its events is one, too. Where there is nothing to undo, to do again or to restore, a command runs instead.
type event struct {
	what string // run, kill, undo, redo, pack, look, restore, end
	seed uint64 // of what a command does, and of what is restored
	n    int    // operations of a command; steps
	out  []int  // operations that are left out
	at   int    // of kill: after so many operations
	then string // of kill: how the folder comes back
}

func (e event) String() string {
	switch e.what {
	case "run", "kill":
		s := fmt.Sprintf("%s %d %d", e.what, e.seed, e.n)
		if len(e.out) > 0 {
			s += " without " + joined(e.out)
		}
		if e.what == "kill" {
			s += fmt.Sprintf(" after %d, then %s", e.at, e.then)
		}
		return s
	case "undo", "redo":
		return fmt.Sprintf("%s %d", e.what, e.n)
	case "restore":
		return fmt.Sprintf("restore %d", e.seed)
	}
	return e.what
}

func joined(list []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]")
}

// history is a random one. The first event fills the folder, before there is a sandbox.
func history(seed uint64, rounds int) []event {
	r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // no secret
	list := []event{{what: "run", seed: r.Uint64N(1e9), n: 60}}
	for range rounds {
		e := event{seed: r.Uint64N(1e9)}
		switch k := r.IntN(100); {
		case k < 42:
			e.what, e.n = "run", []int{1, 3, 10, 40}[r.IntN(4)]
		case k < 50:
			e.what, e.n = "kill", []int{5, 20, 50}[r.IntN(3)]
			e.at, e.then = 1+r.IntN(e.n), []string{"undo", "run", "look"}[r.IntN(3)]
		case k < 70:
			e.what, e.n = "undo", 1+r.IntN(3)
		case k < 83:
			e.what, e.n = "redo", 1+r.IntN(2)
		case k < 90:
			e.what = "pack"
		case k < 92:
			e.what = "look"
		default:
			e.what = "restore"
		}
		list = append(list, e)
	}
	return append(list, event{what: "end"})
}

// smallest is a part of a history that fails that fails, too: without events and then without operations that it fails without. more tells
// whether there is time for another try.
func smallest(list []event, fails func([]event) bool, more func() bool) []event {
	list = fewer(list, func(part []event) bool { return fails(part) }, more)
	for i := range list {
		if list[i].what != "run" && list[i].what != "kill" {
			continue
		}
		ops := make([]int, 0, list[i].n)
		for k := range list[i].n {
			if !slices.Contains(list[i].out, k) {
				ops = append(ops, k)
			}
		}
		with := func(ops []int) []event {
			part := slices.Clone(list)
			part[i].out = nil
			for k := range part[i].n {
				if !slices.Contains(ops, k) {
					part[i].out = append(part[i].out, k)
				}
			}
			return part
		}
		list = with(fewer(ops, func(ops []int) bool { return fails(with(ops)) }, more))
	}
	return list
}

// fewer leaves out of a list what it fails without: first large parts, then single ones.
func fewer[T any](list []T, fails func([]T) bool, more func() bool) []T {
	for size := len(list); size > 0; size /= 2 {
		for from := 0; from < len(list) && more(); {
			part := slices.Concat(list[:from], list[min(from+size, len(list)):])
			if fails(part) {
				list = part
			} else {
				from += size
			}
		}
	}
	return list
}
