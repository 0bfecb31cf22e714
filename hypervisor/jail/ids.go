package jail

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// idRange are ids that a user namespace has, by their numbers inside it.
type idRange struct{ first, count uint32 }

// parseIDs reads a uid_map or gid_map.
func parseIDs(r io.Reader) ([]idRange, error) {
	var out []idRange
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		var x idRange
		var outside uint32
		if _, err := fmt.Sscan(sc.Text(), &x.first, &outside, &x.count); err != nil {
			return nil, fmt.Errorf("unexpected line %q: %w", sc.Text(), err)
		}
		out = append(out, x)
	}
	return out, sc.Err()
}

// ownIDs reads which ids our own user namespace has: uid_map or gid_map.
func ownIDs(name string) ([]idRange, error) {
	f, err := os.Open("/proc/self/" + name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ids, err := parseIDs(f)
	if err == nil && len(ids) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("/proc/self/%s: %w", name, err)
	}
	return ids, nil
}

// idIdentity is the text of a map in which all of the ids are themselves.
func idIdentity(ids []idRange) string {
	var b strings.Builder
	for _, x := range ids {
		fmt.Fprintf(&b, "%d %d %d\n", x.first, x.first, x.count)
	}
	return b.String()
}

// swapIDs is the text of a map in which two ids change places and the others are
// themselves. It is an error if one of the two is not there.
func swapIDs(ids []idRange, a, b uint32) (string, error) {
	if a == b {
		return idIdentity(ids), nil
	}
	var text strings.Builder
	found := 0
	line := func(inside, outside, count uint32) {
		if count > 0 {
			fmt.Fprintf(&text, "%d %d %d\n", inside, outside, count)
		}
	}
	for _, x := range ids {
		for _, id := range []uint32{min(a, b), max(a, b)} {
			if id < x.first || id-x.first >= x.count {
				continue
			}
			before := id - x.first
			line(x.first, x.first, before)
			line(id, a+b-id, 1)
			x.first, x.count = id+1, x.count-before-1
			found++
		}
		line(x.first, x.first, x.count)
	}
	if found != 2 {
		return "", fmt.Errorf("ids %d and %d are not both in our user namespace", a, b)
	}
	return text.String(), nil
}
