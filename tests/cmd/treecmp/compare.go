//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
)

// compare returns one line for each difference, in the order of paths.
func compare(a, b map[string]node) []string {
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		x, inA := a[k]
		y, inB := b[k]
		switch {
		case !inA:
			out = append(out, fmt.Sprintf("%s: only in the second (%s)", k, y.Type))
		case !inB:
			out = append(out, fmt.Sprintf("%s: only in the first (%s)", k, x.Type))
		default:
			out = append(out, differences(k, x, y)...)
		}
	}
	return out
}

func differences(key string, a, b node) []string {
	var out []string
	check := func(what string, x, y any) {
		if x != y {
			out = append(out, fmt.Sprintf("%s: %s: %v, then %v", key, what, x, y))
		}
	}
	check("type", a.Type, b.Type)
	check("mode", fmt.Sprintf("%04o", a.Mode), fmt.Sprintf("%04o", b.Mode))
	check("uid", a.UID, b.UID)
	check("gid", a.GID, b.GID)
	check("device", a.Rdev, b.Rdev)
	check("size", a.Size, b.Size)
	check("mtime", a.MtimeNs, b.MtimeNs)
	check("content", a.Content, b.Content)
	check("target", a.Target, b.Target)
	check("hard links", a.Links, b.Links)
	if !maps.Equal(a.Xattrs, b.Xattrs) {
		out = append(out, fmt.Sprintf("%s: xattrs: %v, then %v", key, a.Xattrs, b.Xattrs))
	}
	return out
}
