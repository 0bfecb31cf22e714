package image

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/u-root/u-root/pkg/cpio"
)

// directories of a guest that are empty until it runs.
var directories = []string{"dev", "proc", "sys", "run", "tmp", "mnt", "root", "home", "bin", "sbin", "usr", "usr/bin", "usr/sbin", "etc", "lib", "lib/modules", "var", "var/tmp"}

// baseRecords are the contents of base.cpio.
func baseRecords(busybox []byte, applets []string, modules loads) []cpio.Record {
	var rs []cpio.Record
	for _, d := range directories {
		mode := uint64(0o755)
		if d == "tmp" || d == "var/tmp" {
			mode = 0o1777
		}
		rs = append(rs, cpio.Directory(d, mode))
	}
	rs = append(rs, cpio.CharDev("dev/console", 0o600, 5, 1), cpio.CharDev("dev/null", 0o666, 1, 3)) // until /dev is mounted
	rs = append(rs, cpio.StaticFile("bin/busybox", string(busybox), 0o755))
	for _, a := range applets {
		if a != "busybox" && a != "init" {
			rs = append(rs, cpio.Symlink("bin/"+a, "busybox"))
		}
	}
	for _, m := range modules.all() {
		rs = append(rs, cpio.StaticFile(m.file(), string(m.content), 0o644))
	}
	for _, l := range modules {
		var text strings.Builder // one path a line, in order
		for _, m := range l.modules {
			fmt.Fprintln(&text, "/"+m.file())
		}
		rs = append(rs, cpio.StaticFile(l.file, text.String(), 0o644))
	}
	return append(rs,
		cpio.StaticFile("etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n", 0o644),
		cpio.StaticFile("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n", 0o644),
		cpio.StaticFile("etc/profile", "export PATH=/usr/local/bin:/usr/bin:/bin\n", 0o644),
	)
}

// writeCPIO writes records in the order of their names, with nothing in them
// that depends on when or by whom they were made.
func writeCPIO(w io.Writer, rs []cpio.Record) error {
	slices.SortFunc(rs, func(a, b cpio.Record) int { return strings.Compare(a.Name, b.Name) })
	out := cpio.Newc.Writer(w)
	for i, r := range rs {
		r = cpio.MakeReproducible(r)
		r.Ino, r.NLink = uint64(i+1), 1
		if err := out.WriteRecord(r); err != nil {
			return fmt.Errorf("image: %s: %w", r.Name, err)
		}
	}
	return cpio.WriteTrailer(out)
}
