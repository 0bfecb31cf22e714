package ninep

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// seeds are sessions of each kind of message.
func seeds() (all [][]byte) {
	begin := append(encode(nil, typTversion, noTag, &tversion{8192, version}), encode(nil, typTattach, 1, &tattach{afid: noFID})...)
	session := func(ms ...any) {
		out := append([]byte(nil), begin...)
		for i := 0; i < len(ms); i += 2 {
			out = append(out, encode(nil, uint8(ms[i].(int)), uint16(i+2), ms[i+1].(message))...)
		}
		all = append(all, out)
	}
	session(typTwalk, &twalk{0, 1, []string{"d", "f"}}, typTlopen, &tlopen{1, 2}, typTwrite, &twrite{1, 3, []byte("data")},
		typTread, &tread{1, 0, 100}, typTfsync, &tfsync{fid: 1}, typTlock, &tlock{fid: 1, typ: 1, length: 9}, typTgetlock, &tgetlock{fid: 1},
		typTsetattr, &tsetattr{fid: 1, valid: setKnown, mode: 0o600, size: 5}, typTgetattr, &tgetattr{fid: 1}, typTclunk, &tfid{1})
	session(typTwalk, &twalk{0, 1, nil}, typTlcreate, &tlcreate{fid: 1, name: "new", flags: 2, mode: 0o644},
		typTlink, &tlink{0, 1, "hard"}, typTrename, &trename{1, 0, "newer"}, typTremove, &tfid{1})
	session(typTmkdir, &tmkdir{0, "m", 0o755, 0}, typTsymlink, &tsymlink{0, "s", "t", 0}, typTmknod, &tmknod{fid: 0, name: "p", mode: 0o10600},
		typTrenameat, &trenameat{0, "m", 0, "n"}, typTunlinkat, &tunlinkat{0, "n", 0x200}, typTwalk, &twalk{0, 1, []string{"s"}}, typTreadlink, &tfid{1})
	session(typTwalk, &twalk{0, 1, nil}, typTlopen, &tlopen{1, 0}, typTreaddir, &tread{1, 0, 4096}, typTstatfs, &tfid{1}, typTflush, &tflush{4})
	session(typTwalk, &twalk{0, 1, []string{"d"}}, typTxattrcreate, &txattrcreate{1, "user.a", 2, 0}, typTwrite, &twrite{1, 0, []byte("vv")},
		typTclunk, &tfid{1}, typTxattrwalk, &txattrwalk{0, 2, ""}, typTread, &tread{2, 0, 100}, typTauth, &tauth{})
	session(typTversion, &tversion{4096, version}, typTattach, &tattach{afid: noFID})
	huge := encode(nil, typTwrite, 9, new(empty))
	binary.LittleEndian.PutUint32(huge, 1<<31)
	return append(all, append(append([]byte(nil), begin...), huge...), begin[:10])
}

// FuzzNinePMessage: whatever a client sends, the server neither panics nor hangs,
// answers in whole messages, touches nothing outside the folder, and keeps
// nothing when the client is gone.
func FuzzNinePMessage(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	hostfs.ClearUmask()
	f.Fuzz(func(t *testing.T, stream []byte) {
		base := t.TempDir()
		outside := filepath.Join(base, "outside")
		must(t, os.WriteFile(outside, []byte("outside"), 0o644))
		host := filepath.Join(base, "host")
		must(t, os.MkdirAll(filepath.Join(host, "d"), 0o755))
		must(t, os.WriteFile(filepath.Join(host, "d", "f"), []byte("content"), 0o644))
		must(t, os.Symlink("../outside", filepath.Join(host, "up")))
		root, err := hostfs.OpenRoot(host)
		must(t, err)
		defer root.Close()
		log := new(panicLog)
		o := Options{MessageBytes: 64 << 10, MaxFIDs: 64, MaxOpen: 16}
		o.Tree.Root, o.Tree.Logger = root, log.logger()
		ours, theirs := net.Pipe()
		s, err := Serve(ours, o)
		must(t, err)
		answers := make(chan error, 1)
		go func() { answers <- wholeMessages(theirs) }()
		_, _ = theirs.Write(stream)
		waitFor(t, "the answers", func() bool { return s.InFlight() == 0 })
		theirs.Close()
		if err := <-answers; err != nil {
			t.Error(err)
		}
		<-s.Done()
		waitFor(t, "the last request", func() bool { return s.InFlight() == 0 })
		if text := log.text(); text != "" {
			t.Error(text)
		}
		if b, err := os.ReadFile(outside); string(b) != "outside" || err != nil {
			t.Errorf("outside is %q, %v", b, err)
		}
		if names, _ := os.ReadDir(base); len(names) != 2 {
			t.Errorf("beside the folder: %v", names)
		}
		_ = filepath.WalkDir(host, func(p string, d os.DirEntry, err error) error {
			if d.IsDir() { // so that it can be removed
				_ = os.Chmod(p, 0o700)
			}
			return nil
		})
	})
}

// wholeMessages reads answers until the end.
func wholeMessages(r io.Reader) error {
	for {
		var head [headerBytes]byte
		if n, err := io.ReadFull(r, head[:]); n == 0 {
			return nil
		} else if err != nil && !isClosed(err) {
			return err
		}
		if _, err := io.CopyN(io.Discard, r, int64(binary.LittleEndian.Uint32(head[:]))-headerBytes); err != nil && !isClosed(err) {
			return err
		}
	}
}
