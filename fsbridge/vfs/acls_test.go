package vfs

import (
	"bytes"
	"encoding/binary"
	"testing"
)

type named struct {
	tag, rights uint16
	id          uint32
}

func aclsList(entries ...named) []byte {
	b := []byte{version, 0, 0, 0}
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.rights)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

const nobody = 1<<32 - 1

var (
	owner, group, mask, other = named{0x01, 6, nobody}, named{0x04, 4, nobody}, named{tagMask, 6, nobody}, named{0x20, 4, nobody}
)

func TestSwap(t *testing.T) {
	got := aclsList(owner, named{tagUser, 6, 0}, named{tagUser, 4, 61000}, named{tagUser, 4, 7}, group, named{tagGroup, 4, 0}, named{tagGroup, 5, 1000}, mask, other)
	swapACL(got, [2]uint32{0, 61000}, [2]uint32{0, 1000})
	want := aclsList(owner, named{tagUser, 6, 61000}, named{tagUser, 4, 0}, named{tagUser, 4, 7}, group, named{tagGroup, 4, 1000}, named{tagGroup, 5, 0}, mask, other)
	if !bytes.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestOnly(t *testing.T) {
	kept, others := onlyACL(aclsList(owner, named{tagUser, 6, 5}, named{tagUser, 6, 1000}, group, named{tagGroup, 4, 1000}, named{tagGroup, 4, 20}, mask, other), 1000, 20)
	if want := aclsList(owner, named{tagUser, 6, 1000}, group, named{tagGroup, 4, 20}, mask, other); !others || !bytes.Equal(kept, want) {
		t.Errorf("%v, %v, want %v", kept, others, want)
	}
	if kept, others := onlyACL(aclsList(owner, group, other), 0, 0); others || !bytes.Equal(kept, aclsList(owner, group, other)) {
		t.Errorf("%v, %v", kept, others)
	}
}

func TestPlain(t *testing.T) {
	for _, c := range []struct {
		list []byte
		want bool
	}{
		{aclsList(owner, group, other), true},
		{aclsList(owner, group, mask, other), false},
		{aclsList(owner, named{tagUser, 6, 5}, group, mask, other), false},
		{aclsList(owner, group, named{tagGroup, 4, 5}, mask, other), false},
		{nil, false},
		{[]byte{1, 0, 0, 0}, false},
	} {
		if got := plainACL(c.list); got != c.want {
			t.Errorf("%v: %v", c.list, got)
		}
	}
}

// FuzzLists gives the functions what is no list, too: they leave it as it is, and none changes how often it applies.
func FuzzLists(f *testing.F) {
	f.Add(aclsList(owner, named{tagUser, 6, 5}, group, named{tagGroup, 4, 20}, mask, other), uint32(5), uint32(6))
	f.Add(aclsList(), uint32(0), uint32(0))
	f.Add([]byte{version, 0, 0, 0, tagUser}, uint32(0), uint32(1))
	f.Fuzz(func(t *testing.T, data []byte, a, b uint32) {
		got := bytes.Clone(data)
		for range 2 {
			swapACL(got, [2]uint32{a, b}, [2]uint32{b, a})
		}
		if !bytes.Equal(got, data) {
			t.Errorf("swapped twice: %v, want %v", got, data)
		}
		kept, others := onlyACL(bytes.Clone(data), a, b)
		if !others && !bytes.Equal(kept, data) || others && len(kept) >= len(data) {
			t.Errorf("kept %v of %v, others: %v", kept, data, others)
		}
		if again, others := onlyACL(bytes.Clone(kept), a, b); others || !bytes.Equal(again, kept) {
			t.Errorf("kept %v of %v", again, kept)
		}
		plainACL(data)
	})
}
