package ninep

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// TestDOS03_ManyListings: listings and attributes that nobody reads the answers of
// cost bounded memory, as reads do.
func TestDOS03_ManyListings(t *testing.T) {
	const requests, memory, dir, attr = 300, 1 << 20, 1, 2
	for name, m := range map[string]struct {
		typ uint8
		m   message
	}{
		"listing":   {typTreaddir, &tread{dir, 0, listBytes}},
		"attribute": {typTread, &tread{attr, 0, listBytes}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, func(o *Options) { o.MaxBytes = memory })
			for i := range 400 {
				must(t, os.WriteFile(l.path(fmt.Sprintf("%0200d", i)), nil, 0o644))
			}
			value := make([]byte, 60_000)
			l.conn.SetDeadline(time.Now().Add(5 * time.Minute)) // a failure's
			for i, m := range []struct {
				typ uint8
				m   message
			}{
				{typTversion, &tversion{1 << 20, version}}, {typTattach, &tattach{afid: noFID, uid: noFID}},
				{typTwalk, &twalk{0, dir, nil}}, {typTlopen, &tlopen{dir, 0}},
				{typTxattrwalk, &txattrwalk{0, attr, ""}},
			} {
				_, err := l.conn.Write(encode(nil, m.typ, uint16(i), m.m))
				must(t, err)
				if typ, body := answer(t, l); typ != m.typ+1 {
					t.Fatalf("type %d answered by %d: %x", m.typ, typ, body)
				}
			}
			s := l.sessions.Current()
			s.mu.Lock() // as if the file system had attributes of that size
			s.fids[attr].xattr.data = value
			s.mu.Unlock()
			before := heap()
			sent := make(chan error, 1)
			go func() {
				for tag := range uint16(requests) {
					if _, err := l.conn.Write(encode(nil, m.typ, tag, m.m)); err != nil {
						sent <- err
						return
					}
				}
				sent <- nil
			}()
			waitFor(t, "all requests", func() bool { return l.InFlight() == requests })
			const besides = requests * (16 << 10)
			for range 20 { // those that may make their answers
				if grown := heap() - before; grown > memory+besides {
					t.Errorf("%d requests that nobody reads the answers of take %d MiB", requests, grown>>20)
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			must(t, <-sent)
			for range requests {
				if typ, body := answer(t, l); typ != m.typ+1 || len(body) <= 4 {
					t.Fatalf("type %d, %d bytes", typ, len(body))
				}
			}
		})
	}
}
