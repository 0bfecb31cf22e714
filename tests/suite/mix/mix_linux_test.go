package mix

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/filesystems"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// What is tried. The zero value is what make test has.
var (
	seed   = flag.Uint64("seed", 0, "the first `history`; 0: those that make test has, or with -for one by the clock")
	rounds = flag.Int("rounds", 0, "how many things a history does; 0: 10, or 25 with -for")
	lasts  = flag.Duration("for", 0, "try history after history for this long; 0: one of each kind")
	shrink = flag.Duration("shrink", time.Minute, "how long to look for a smaller history that fails")
	kinds  = flag.String("fs", "", "file `systems`, with commas; empty: ext4, xfs, tmpfs and btrfs")
	ways   = flag.String("bridge", "", "`bridges`, or isolations, with commas; empty: mediated, fuse, landlock and none")
	state  = flag.String("state", "", "where the log is: beside the folder, or `apart`; empty: by turns")
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "mutate" {
		if err := mutate(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// flagsOf are those of a run by a bridge, or in an isolation.
func flagsOf(t *testing.T, way string) []string {
	switch way {
	case "mediated", "fuse":
		return []string{"--bridge", way}
	case "landlock", "none":
		return []string{"--isolation", way}
	}
	t.Fatalf("-bridge %q: want mediated, fuse, landlock or none", way)
	return nil
}

func listed(text, otherwise string) []string {
	if text == "" {
		text = otherwise
	}
	return strings.Split(text, ",")
}

// TestMix tries histories: one for each bridge and isolation, each on another file system, or with -for on each, until the time is over.
func TestMix(t *testing.T) {
	require.Root(t)
	require.Mount(t)
	require.FUSE(t)
	require.UserNamespaces(t)
	if _, err := filters.LandlockVersion(); err != nil {
		require.Missing(t, "Landlock ("+err.Error()+")", "a kernel with CONFIG_SECURITY_LANDLOCK")
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := place{program: drive.Program(t, "sandbox"), mutator: drive.Visible(t, own), takes: 10 * time.Minute}
	fs, by := listed(*kinds, "ext4,xfs,tmpfs,btrfs"), listed(*ways, "mediated,fuse,landlock,none")
	if *lasts > 0 {
		forLong(t, p, fs, by)
		return
	}
	for i := range max(len(fs), len(by)) {
		kind, way, s := fs[i%len(fs)], by[i%len(by)], *seed
		if s == 0 {
			s = uint64(i + 1)
		}
		t.Run(kind+" "+way, func(t *testing.T) {
			t.Parallel()
			p := p
			p.on(t, kind, way, *state == "apart" || *state == "" && i%2 == 1)
			check(t, p, s, orElse(*rounds, 10))
		})
	}
}

func orElse(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// forLong tries histories until the time is over.
func forLong(t *testing.T, p place, fs, by []string) {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().Unix())
	}
	mounted := map[string]string{}
	for _, kind := range fs {
		mounted[kind] = filesystems.Mount(t, filesystems.Kind(kind), nil)
	}
	tried := 0
	for end := time.Now().Add(*lasts); time.Now().Before(end); {
		for _, kind := range fs {
			for _, way := range by {
				p := p
				p.base, p.apart = mounted[kind], ""
				p.use(t, way, *state == "apart" || *state == "" && s%3 == 0)
				t.Run(fmt.Sprintf("%s %s %d", kind, way, s), func(t *testing.T) { check(t, p, s, orElse(*rounds, 25)) })
				s++
				tried++
			}
		}
	}
	t.Logf("%d histories", tried)
}

// on makes a file system for the folder.
func (p *place) on(t *testing.T, kind, way string, apart bool) {
	p.base = filesystems.Mount(t, filesystems.Kind(kind), nil)
	p.use(t, way, apart)
}

// use says how, and where the log is.
func (p *place) use(t *testing.T, way string, apart bool) {
	p.flags, p.going = flagsOf(t, way), way == "mediated" || way == "fuse"
	if apart {
		p.apart = t.TempDir()
	}
}

// kindOf is what an error begins with, before any number, name or list.
func kindOf(err error) string {
	kind, _, _ := strings.Cut(err.Error(), "\n")
	if i := strings.IndexAny(kind, "0123456789\":["); i > 0 {
		kind = kind[:i]
	}
	return kind
}

// check tries one history, and tells of the smallest part of it that fails.
func check(t *testing.T, p place, seed uint64, rounds int) {
	list := history(seed, rounds)
	log, err := p.try(list)
	if err == nil {
		return
	}
	end, kind := time.Now().Add(*shrink), kindOf(err)
	list = smallest(list, func(part []event) bool {
		if len(part) == 0 || part[0].what != "run" {
			return false
		}
		l, e := p.try(part)
		if e == nil || kindOf(e) != kind {
			return false
		}
		log, err = l, e
		return true
	}, func() bool { return time.Now().Before(end) })
	var events strings.Builder
	for _, e := range list {
		fmt.Fprintf(&events, "  %s\n", e)
	}
	t.Errorf("-seed %d -rounds %d %s, log apart: %v\n%v\nThe smallest history that was found (of numbers of commands and operations):\n%s\nwhat it did:\n%s",
		seed, rounds, strings.Join(p.flags, " "), p.apart != "", err, &events, log)
}
