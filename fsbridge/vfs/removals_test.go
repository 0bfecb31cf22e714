package vfs

import (
	"fmt"
	"testing"
)

func TestSet(t *testing.T) {
	var s removalSet
	if s.Take(1, "a") {
		t.Error("an empty Set has a name")
	}
	s.Add(1, "a")
	if s.Take(2, "a") || s.Take(1, "b") || !s.Take(1, "a") || s.Take(1, "a") {
		t.Error("a name is in the Set once, for its directory")
	}
	for i := range 3 * maxNames {
		s.Add(1, fmt.Sprint(i))
		if n := len(s.names); n > maxNames {
			t.Fatalf("%d names", n)
		}
	}
	if !s.Take(1, fmt.Sprint(3*maxNames-1)) {
		t.Error("the newest name is forgotten")
	}
}
