package format_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

func TestDecoder(t *testing.T) {
	b := format.AppendString(binary.AppendVarint(binary.AppendUvarint(nil, 300), -5), "name\xff")
	b = binary.LittleEndian.AppendUint32(append(b, 7), 1<<31)
	b = binary.LittleEndian.AppendUint64(b, math.MaxUint64)
	read := func(b []byte) (*format.Decoder, bool) {
		d := format.NewDecoder(b)
		ok := d.Uint(300) == 300 && d.Int() == -5 && string(d.Bytes()) == "name\xff" && d.Byte() == 7 &&
			d.Uint32() == 1<<31 && d.Uint64() == math.MaxUint64
		return &d, ok
	}
	if d, ok := read(b); !ok || d.End() != nil || d.Left() != 0 || d.Off() != len(b) {
		t.Errorf("read %v, %v", ok, d.End())
	}
	for n := range len(b) {
		if d, ok := read(b[:n]); ok || !errors.Is(d.End(), format.ErrMalformed) {
			t.Errorf("cut at %d: read %v, %v", n, ok, d.End())
		}
	}
	if d, ok := read(append(slices.Clone(b), 0)); !ok || d.Err() != nil || !errors.Is(d.End(), format.ErrMalformed) {
		t.Errorf("a byte too many: %v", d.End())
	}
	d := format.NewDecoder(b)
	if d.Uint(299); !errors.Is(d.Err(), format.ErrMalformed) || d.Uint(300) != 0 {
		t.Errorf("above the limit: %v", d.Err())
	}
}

func TestFrame(t *testing.T) {
	b := append(format.BeginRecord([]byte("before")), "payload"...)
	format.EndRecord(b[len("before"):])
	n, sum := format.RecordHeader(b[len("before"):])
	if n != 7 || sum != format.Sum([]byte("payload")) || sum != format.AddSum(format.Sum([]byte("pay")), []byte("load")) {
		t.Errorf("length %d, sum %x", n, sum)
	}
}

func TestWords(t *testing.T) {
	want := []uint64{1, math.MaxUint64, 0}
	b := format.AppendWords([]byte("before"), want...)[len("before"):]
	if len(b) != format.WordsSize(3) || !slices.Equal(format.Words(b, 3), want) {
		t.Errorf("%d bytes: %v", len(b), format.Words(b, 3))
	}
	for n := range len(b) {
		if format.Words(b[:n], 3) != nil {
			t.Errorf("cut at %d and not noticed", n)
		}
	}
	for n := range 8*3 + 4 {
		bad := slices.Clone(b)
		bad[n] ^= 1
		if format.Words(bad, 3) != nil {
			t.Errorf("byte %d flipped and not noticed", n)
		}
	}
}
