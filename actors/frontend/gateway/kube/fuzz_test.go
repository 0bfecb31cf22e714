package kube

import (
	"errors"
	"testing"
)

// FuzzEvent: whatever a watch says, it is taken in whole, or not at all.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}`))
	f.Add([]byte(`{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"8","creationTimestamp":"2026-01-01T00:00:00Z"}}}`))
	f.Add([]byte(`{"type":"ERROR","object":{"code":410,"message":"too old"}}`))
	f.Add([]byte(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		s := NewStore(nil, "n", "l=v", nil)
		version, err := s.event(line)
		var status *StatusError
		switch {
		case err != nil && !errors.Is(err, errForm) && !errors.As(err, &status):
			t.Errorf("%v", err)
		case err != nil && (s.version != "" || len(s.claims) > 0):
			t.Errorf("a part of it was taken in: %v", err)
		case err == nil && version == "":
			t.Error("no version")
		}
		for name := range s.claims {
			if name == "" {
				t.Error("a claim without a name")
			}
		}
	})
}
