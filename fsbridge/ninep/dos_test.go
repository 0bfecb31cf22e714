package ninep

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// heap is how much live memory the process has.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestDOS03_ManyRequests: a client that sends requests for large answers, far more
// than may be in flight, and reads none of them, costs bounded memory. When it
// reads, each is answered, and the session goes on.
func TestDOS03_ManyRequests(t *testing.T) {
	const requests, inFlight, open = 4000, 1000, 1
	const memory, each = 8 << 20, 256 << 10 // 1,000 answers of that size would be 250 MiB
	l := newLab(t, func(o *Options) { o.MaxRequests, o.MaxBytes = inFlight, memory })
	must(t, os.WriteFile(l.path("f"), make([]byte, 16), 0o644))
	l.conn.SetDeadline(time.Now().Add(5 * time.Minute)) // a failure's
	for _, m := range []struct {
		typ uint8
		m   message
	}{
		{typTversion, &tversion{1 << 20, version}}, {typTattach, &tattach{afid: noFID, uid: noFID}},
		{typTwalk, &twalk{0, open, []string{"f"}}}, {typTlopen, &tlopen{open, 0}},
	} {
		_, err := l.conn.Write(encode(nil, m.typ, 0, m.m))
		must(t, err)
		if typ, _ := answer(t, l); typ != m.typ+1 {
			t.Fatalf("type %d answered by %d", m.typ, typ)
		}
	}
	before := heap()
	sent := make(chan error, 1)
	go func() {
		for tag := range uint16(requests) {
			if _, err := l.conn.Write(encode(nil, typTread, tag, &tread{open, 0, each})); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	waitFor(t, "as many requests as may be", func() bool { return l.InFlight() == inFlight })
	// What each costs beside its data: itself, a goroutine, a channel or two.
	const besides = inFlight * (16 << 10)
	if grown := heap() - before; grown > memory+besides {
		t.Errorf("%d requests that nobody reads the answers of take %d MiB", inFlight, grown>>20)
	}
	answered, refused := 0, 0
	for range requests {
		switch typ, body := answer(t, l); {
		case typ == typTread+1 && len(body) == 4+16:
			answered++
		case typ == typRlerror && binary.LittleEndian.Uint32(body) == uint32(posix.ENOSPC):
			refused++
		default:
			t.Fatalf("type %d: %x", typ, body)
		}
	}
	must(t, <-sent)
	t.Logf("%d answered, %d refused", answered, refused)
	if answered < inFlight {
		t.Errorf("%d answered", answered)
	}
	_, err := l.conn.Write(encode(nil, typTread, 1, &tread{open, 0, each}))
	must(t, err)
	if typ, body := answer(t, l); typ != typTread+1 || len(body) != 4+16 {
		t.Errorf("afterwards: type %d, %x", typ, body)
	}
}

// answer reads the next message of the server's.
func answer(t *testing.T, l *lab) (typ uint8, body []byte) {
	t.Helper()
	head := make([]byte, headerBytes)
	read := func(b []byte) {
		for n := 0; n < len(b); {
			m, err := l.conn.Read(b[n:])
			must(t, err)
			n += m
		}
	}
	read(head)
	body = make([]byte, binary.LittleEndian.Uint32(head)-headerBytes)
	read(body)
	return head[4], body
}

// TestDOS03_LockOwners: the names that a client gives itself when it locks are kept
// with the locks, so they are short.
func TestDOS03_LockOwners(t *testing.T) {
	const locks, bytes = 400, 60_000
	l := newLab(t, nil)
	c := l.dial()
	must(t, os.WriteFile(l.path("f"), nil, 0o644))
	must(t, c.open(0, 1, 2, "f"))
	before := heap()
	for i := range uint64(locks) {
		owner := fmt.Sprintf("%0*d", bytes, i)
		if err := c.rpc(typTlock, &tlock{1, lockRead, 0, i, 1, 1, owner}, new(rlock)); err != nil && err != posix.ENAMETOOLONG {
			t.Fatal(err)
		}
	}
	// What 400 of 65,536 may have of 64 MiB.
	if grown := heap() - before; grown > 2<<20 {
		t.Errorf("%d locks take %d KiB", locks, grown>>10)
	}
	must(t, c.rpc(typTlock, &tlock{1, lockRead, 0, 0, 0, 1, fmt.Sprintf("%064d", 1)}, new(rlock))) // as long as Linux has them
}

// TestDOS04_TwoGigabytes: a size of 2 GB, of a message, before and after the
// version was agreed on, or of a part of one, is refused where it is read, and no
// memory is taken for it.
func TestDOS04_TwoGigabytes(t *testing.T) {
	for _, size := range []uint32{math.MaxInt32, 1 << 31, math.MaxUint32} {
		for _, agreed := range []bool{false, true} {
			t.Run(fmt.Sprintf("message of %d, agreed %v", size, agreed), func(t *testing.T) {
				l := newLab(t, nil)
				c := l.raw()
				typ := uint8(typTversion)
				if agreed {
					must(t, c.rpc(typTversion, &tversion{math.MaxUint32, version}, new(tversion)))
					typ = typTwrite
				}
				frame := encode(nil, typ, 0, new(empty))
				binary.LittleEndian.PutUint32(frame, size)
				takesNoMemory(t, func() {
					if err := c.end(c.send(frame), new(empty)); err != posix.EMSGSIZE {
						t.Errorf("refused with %v", err)
					}
					<-l.Done()
				})
				if err := l.Err(); !errors.Is(err, posix.EMSGSIZE) {
					t.Errorf("the server says: %v", err)
				}
			})
		}
		t.Run(fmt.Sprintf("data of %d", size), func(t *testing.T) {
			l := newLab(t, nil)
			c := l.dial()
			must(t, os.WriteFile(l.path("f"), nil, 0o644))
			must(t, c.open(0, 1, 2, "f"))
			frame := encode(nil, typTwrite, 0, &twrite{1, 0, []byte("x")})
			const count = headerBytes + 4 + 8
			binary.LittleEndian.PutUint32(frame[count:], size)
			takesNoMemory(t, func() {
				if err := c.end(c.send(frame), new(empty)); err != posix.EPROTO {
					t.Errorf("a write of %d bytes that are not there: %v", size, err)
				}
				if err := c.rpc(typTread, &tread{1, 0, size}, new(rread)); err != posix.EINVAL {
					t.Errorf("a read of %d bytes: %v", size, err)
				}
			})
			must(t, c.write(1, 0, "goes on"))
		})
	}
}

func takesNoMemory(t *testing.T, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}
