package ninep

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

// everyMessage are all kinds of bodies, by name.
func everyMessage() map[string]message {
	return map[string]message{
		"Rlerror": new(rlerror), "Tversion": new(tversion), "Tauth": new(tauth), "Tattach": new(tattach),
		"Rattach": new(rqid), "Tflush": new(tflush), "Rflush": new(empty), "Twalk": new(twalk), "Rwalk": new(rwalk),
		"Tclunk": new(tfid), "Tlopen": new(tlopen), "Rlopen": new(ropen), "Tlcreate": new(tlcreate),
		"Tsymlink": new(tsymlink), "Tmknod": new(tmknod), "Tmkdir": new(tmkdir), "Trename": new(trename),
		"Trenameat": new(trenameat), "Tunlinkat": new(tunlinkat), "Tlink": new(tlink), "Rreadlink": new(rreadlink),
		"Rstatfs": new(rstatfs), "Tgetattr": new(tgetattr), "Rgetattr": new(rgetattr), "Tsetattr": new(tsetattr),
		"Txattrwalk": new(txattrwalk), "Rxattrwalk": new(rxattrwalk), "Txattrcreate": new(txattrcreate),
		"Tread": new(tread), "Rread": new(rread), "Twrite": new(twrite), "Rwrite": new(rwrite), "Tfsync": new(tfsync),
		"Tlock": new(tlock), "Rlock": new(rlock), "Tgetlock": new(tgetlock), "Rgetlock": new(rgetlock), "dirent": new(dirent),
	}
}

// fill puts random values into every field.
func fill(v reflect.Value, r *rand.Rand) {
	switch v.Kind() {
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(r.Uint64() >> (64 - v.Type().Bits()))
	case reflect.String:
		v.SetString(strings.Repeat(string(rune('a'+r.IntN(26))), 1+r.IntN(40)) + "\x00\xff/ü")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(maxNames), maxNames))
		for i := range v.Len() {
			fill(v.Index(i), r)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			fill(reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem(), r)
		}
	default:
		panic("unknown kind of field: " + v.Kind().String())
	}
}

// TestP9_01_RoundTrip: what is encoded decodes to the same, for each message;
// with a byte less or more it is refused.
func TestP9_01_RoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, m := range everyMessage() {
		t.Run(name, func(t *testing.T) {
			fresh := func() message { return reflect.New(reflect.TypeOf(m).Elem()).Interface().(message) }
			for range 20 {
				in, out := fresh(), fresh()
				fill(reflect.ValueOf(in).Elem(), r)
				frame := encode(nil, 42, 0xABCD, in)
				if !bytes.Equal(frame[4:headerBytes], []byte{42, 0xCD, 0xAB}) || int(frame[0])|int(frame[1])<<8|int(frame[2])<<16 != len(frame) {
					t.Fatalf("envelope %x of %d bytes", frame[:headerBytes], len(frame))
				}
				body := frame[headerBytes:]
				if err := decode(body, out); err != nil || !reflect.DeepEqual(in, out) {
					t.Fatalf("%+v became %+v, %v", in, out, err)
				}
				if err := decode(append(body[:len(body):len(body)], 0), fresh()); !errors.Is(err, errMalformed) {
					t.Errorf("a byte too much: %v", err)
				}
				for n := range len(body) {
					if name == "Tfsync" && n == 4 {
						continue // the old form of it
					}
					if err := decode(body[:n], fresh()); !errors.Is(err, errMalformed) {
						t.Fatalf("%d bytes of %d: %v", n, len(body), err)
					}
				}
			}
		})
	}
}

// TestP9_02_KnownBytes: messages as they are on the wire, laid out by hand from
// the protocol's description (diod's protocol.md, Linux's net/9p/client.c): one of each kind of body at least. The length before it is counted here.
func TestP9_02_KnownBytes(t *testing.T) {
	const name, q = "0200 6162", "80 04030201 0807060504030201" // "ab", a directory's qid
	aQID := qid{qidDir, 0x01020304, 0x0102030405060708}
	laidOut := map[reflect.Type]bool{reflect.TypeFor[dirent](): true} // in Rreaddir
	for _, c := range []struct {
		typ  uint8
		tag  uint16
		m    message
		wire string // behind the length
	}{
		{typTversion, noTag, &tversion{8192, "9P2000.L"}, "64 ffff 00200000 0800 3950323030302e4c"},
		{typTversion + 1, noTag, &tversion{4096, "unknown"}, "65 ffff 00100000 0700 756e6b6e6f776e"},
		{typTauth, 1, &tauth{5, "ab", "", 1000}, "66 0100 05000000" + name + "0000 e8030000"},
		{typTattach, 1, &tattach{0, noFID, "nobody", "", noFID}, "68 0100 00000000 ffffffff 0600 6e6f626f6479 0000 ffffffff"},
		{typTattach + 1, 1, &rqid{qid{qidDir, 0x01020304, 2}}, "69 0100 80 04030201 0200000000000000"},
		{typRlerror, 7, &rlerror{2}, "07 0700 02000000"},
		{typTflush, 10, &tflush{3}, "6c 0a00 0300"},
		{typTflush + 1, 10, &empty{}, "6d 0a00"},
		{typTwalk, 2, &twalk{0, 1, []string{"a", "bc"}}, "6e 0200 00000000 01000000 0200 0100 61 0200 6263"},
		{typTwalk + 1, 2, &rwalk{[]qid{aQID, {0, 1, 2}}}, "6f 0200 0200" + q + "00 01000000 0200000000000000"},
		{typTclunk, 3, &tfid{0xa1b2c3d4}, "78 0300 d4c3b2a1"},
		{typTlopen, 3, &tlopen{1, 0o100002}, "0c 0300 01000000 02800000"},
		{typTlopen + 1, 3, &ropen{aQID, 0x1000}, "0d 0300" + q + "00100000"},
		{typTlcreate, 3, &tlcreate{1, "ab", 0o102, 0o644, 1000}, "0e 0300 01000000" + name + "42000000 a4010000 e8030000"},
		{typTsymlink, 3, &tsymlink{1, "ab", "../c", 1000}, "10 0300 01000000" + name + "0400 2e2e2f63 e8030000"},
		{typTmknod, 3, &tmknod{1, "ab", 0o10644, 8, 9, 1000}, "12 0300 01000000" + name + "a4110000 08000000 09000000 e8030000"},
		{typTmkdir, 3, &tmkdir{1, "ab", 0o755, 1000}, "48 0300 01000000" + name + "ed010000 e8030000"},
		{typTrename, 3, &trename{1, 2, "ab"}, "14 0300 01000000 02000000" + name},
		{typTrenameat, 3, &trenameat{1, "ab", 2, "c"}, "4a 0300 01000000" + name + "02000000 0100 63"},
		{typTunlinkat, 6, &tunlinkat{9, "d", 0x200}, "4c 0600 09000000 0100 64 00020000"},
		{typTlink, 3, &tlink{1, 2, "ab"}, "46 0300 01000000 02000000" + name},
		{typTreadlink, 3, &tfid{1}, "16 0300 01000000"},
		{typTreadlink + 1, 3, &rreadlink{"../c"}, "17 0300 0400 2e2e2f63"},
		{typTstatfs, 3, &tfid{1}, "08 0300 01000000"},
		{
			typTstatfs + 1, 3, &rstatfs{0x01021997, 4096, 1, 2, 3, 4, 5, 0x0102030405060708, 255},
			"09 0300 97190201 00100000 0100000000000000 0200000000000000 0300000000000000 0400000000000000 0500000000000000 0807060504030201 ff000000",
		},
		{typTgetattr, 8, &tgetattr{1, 0x7ff}, "18 0800 01000000 ff07000000000000"},
		{
			typTgetattr + 1, 8, &rgetattr{0x7ff, aQID, 0o40755, 1000, 1001, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
			"19 0800 ff07000000000000" + q + "ed410000 e8030000 e9030000" + words(2, 16),
		},
		{typTsetattr, 8, &tsetattr{1, setKnown, 0o644, 1000, 1001, 2, 3, 4, 5, 6}, "1a 0800 01000000 ff010000 a4010000 e8030000 e9030000" + words(2, 6)},
		{typTxattrwalk, 8, &txattrwalk{1, 2, "ab"}, "1e 0800 01000000 02000000" + name},
		{typTxattrwalk + 1, 8, &rxattrwalk{0x0102030405060708}, "1f 0800 0807060504030201"},
		{typTxattrcreate, 8, &txattrcreate{1, "ab", 5, 2}, "20 0800 01000000" + name + "0500000000000000 02000000"},
		{typTreaddir, 4, &tread{1, 4096, 1000}, "28 0400 01000000 0010000000000000 e8030000"},
		{typTreaddir + 1, 4, &rread{encodeEntry(&dirent{aQID, 3, 4, "ab"})}, "29 0400 1a000000" + q + "0300000000000000 04" + name},
		{typTread, 4, &tread{1, 4096, 1000}, "74 0400 01000000 0010000000000000 e8030000"},
		{typTread + 1, 4, &rread{[]byte("hi")}, "75 0400 02000000 6869"},
		{typTwrite, 5, &twrite{1, 1, []byte("x")}, "76 0500 01000000 0100000000000000 01000000 78"},
		{typTwrite + 1, 5, &rwrite{0x01020304}, "77 0500 04030201"},
		{typTfsync, 5, &tfsync{1, 1}, "32 0500 01000000 01000000"},
		{typTlock, 9, &tlock{1, lockWrite, lockBlock, 0, 0, 77, "h"}, "34 0900 01000000 01 01000000 0000000000000000 0000000000000000 4d000000 0100 68"},
		{typTlock + 1, 9, &rlock{1}, "35 0900 01"},
		{typTgetlock, 9, &tgetlock{1, rgetlock{lockRead, 2, 3, 77, "h"}}, "36 0900 01000000 00" + words(2, 3) + "4d000000 0100 68"},
		{typTgetlock + 1, 9, &rgetlock{lockWrite, 2, 3, 77, "h"}, "37 0900 01" + words(2, 3) + "4d000000 0100 68"},
		{typTremove, 9, &tfid{1}, "7a 0900 01000000"},
	} {
		body, err := hex.DecodeString(strings.ReplaceAll(c.wire, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		laidOut[reflect.TypeOf(c.m).Elem()] = true
		want := append([]byte{byte(4 + len(body)), 0, 0, 0}, body...)
		if got := encode(nil, c.typ, c.tag, c.m); !bytes.Equal(got, want) {
			t.Errorf("%T:\n got %x\nwant %x", c.m, got, want)
		}
		m := reflect.New(reflect.TypeOf(c.m).Elem()).Interface().(message)
		if err := decode(want[headerBytes:], m); err != nil || fmt.Sprint(m) != fmt.Sprint(c.m) {
			t.Errorf("%T decodes as %+v, %v", c.m, m, err)
		}
	}
	for name, m := range everyMessage() {
		if !laidOut[reflect.TypeOf(m).Elem()] {
			t.Errorf("no bytes of a %s are laid out", name)
		}
	}
}

// words are the numbers from the first to the last, in eight bytes each.
func words(first, last int) (s string) {
	for n := first; n <= last; n++ {
		s += fmt.Sprintf(" %02x00000000000000 ", n)
	}
	return s
}

// encodeEntry is one entry of an Rreaddir's data.
func encodeEntry(d *dirent) []byte { return encode(nil, 0, 0, d)[headerBytes:] }

// TestNames: no list is longer than the protocol allows.
func TestNames(t *testing.T) {
	names := make([]string, maxNames+1)
	if err := decode(encode(nil, typTwalk, 0, &twalk{names: names})[headerBytes:], new(twalk)); !errors.Is(err, errMalformed) {
		t.Errorf("%d names: %v", len(names), err)
	}
}

// TestLocks: the table of record locks, against what POSIX says.
func TestLocks(t *testing.T) {
	a, b := lockOwner{"h", 1}, lockOwner{"h", 2}
	var locks []lock
	take := func(l lock) bool {
		if conflict(locks, l) != nil {
			return false
		}
		locks = replaced(locks, l, false)
		return true
	}
	for i, c := range []struct {
		l  lock
		ok bool
	}{
		{lock{false, 0, 99, a}, true},
		{lock{false, 50, 149, b}, true},   // both read
		{lock{true, 120, 130, b}, true},   // a's is elsewhere
		{lock{true, 99, 99, b}, false},    // a reads
		{lock{true, 0, 49, a}, true},      // upgrades its own
		{lock{false, 10, 10, b}, false},   // a writes
		{lock{false, 125, 125, a}, false}, // b writes
		{lock{true, 150, 1<<64 - 1, a}, true},
	} {
		if got := take(c.l); got != c.ok {
			t.Errorf("%d: %+v: %v, want %v", i, c.l, got, c.ok)
		}
	}
	locks = replaced(locks, lock{start: 10, end: 19, owner: a}, true)
	if l := conflict(locks, lock{true, 10, 19, b}); l != nil {
		t.Errorf("unlocked, but %+v", l)
	}
	for _, at := range []uint64{9, 20} {
		if conflict(locks, lock{false, at, at, b}) == nil {
			t.Errorf("byte %d was unlocked, too", at)
		}
	}
	locks = replaced(locks, lock{start: 0, end: 1<<64 - 1, owner: a}, true)
	locks = replaced(locks, lock{start: 0, end: 1<<64 - 1, owner: b}, true)
	if len(locks) != 0 {
		t.Errorf("left: %+v", locks)
	}
	if _, ok := lockRange(1<<63, 1<<63+1); ok {
		t.Error("a range beyond the end of numbers")
	}
}
