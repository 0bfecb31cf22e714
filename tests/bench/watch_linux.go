package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

const (
	hostEdits  = 500
	editsEnd   = "end"
	editsGoal  = 100 // ms
	editedFile = "edited"
)

// benchWatch measures how long it takes until a program inside notices an edit on the host: an
// event of inotify, which over FUSE is one that we cause, or other content.
func benchWatch(ctx context.Context, l *lab, r *report.Report, _ int) error {
	for _, c := range []struct{ bridge, how, name string }{
		{"mediated", "events", "an edit on the host to inotify inside, mediated"},
		{"fuse", "events", "an edit on the host to inotify inside, FUSE"},
		{"mediated", "content", "an edit on the host to its content inside, mediated"},
		{"fuse", "content", "an edit on the host to its content inside, FUSE"},
	} {
		took, err := noticed(ctx, l, c.bridge, c.how)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		slices.Sort(took)
		r.Value("watch", c.name+", median", report.MS(took[len(took)/2]), "ms", 0)
		r.Value("watch", c.name+", 99 %", report.MS(took[len(took)*99/100]), "ms", editsGoal)
	}
	return nil
}

// noticed edits a file again and again.
func noticed(ctx context.Context, l *lab, bridge, how string) (took []time.Duration, err error) {
	s, err := watchedJail(ctx, l, bridge, how)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	said, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer said.Close()
	ended := make(chan error, 1)
	go func() {
		defer output.Close()
		_, err := s.session.Run(ctx, api.RunRequest{Argv: []string{"./bench", watchArg, how}, Env: s.environ, Dir: s.dir, Stdout: output, Stderr: output})
		ended <- err
	}()
	lines := bufio.NewReader(said)
	edit := func(text string) (time.Time, error) { // as editors save
		next := filepath.Join(l.dir, "next")
		if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
			return time.Time{}, err
		}
		start := time.Now()
		return start, os.Rename(next, filepath.Join(s.dir, editedFile))
	}
	if line, err := lines.ReadString('\n'); err != nil { // it watches
		return nil, fmt.Errorf("%q: %w", line, err)
	}
	for i := range hostEdits {
		time.Sleep(5 * time.Millisecond) // nobody edits faster
		start, err := edit(strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		at, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return nil, err
		}
		took = append(took, time.Unix(0, at).Sub(start))
	}
	if _, err := edit(editsEnd); err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, lines)
	return took, errors.Join(err, <-ended)
}

// watchedJail is a session with this program in the folder.
func watchedJail(ctx context.Context, l *lab, bridge, how string) (*live, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	fill := func(dir string) error {
		return errors.Join(command(ctx, dir, "cp", self, "bench"), os.WriteFile(filepath.Join(dir, editedFile), nil, 0o644))
	}
	return startLive(ctx, l, "watch-"+bridge+"-"+how, fill, func(c *api.Config) {
		c.Bridge = hypervisor.Bridge(bridge)
		c.Runtime = newJail()
	})
}

// watchEnd is the program inside: it prints the time of each edit that it notices.
func watchEnd(how string, stdout io.Writer) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	if _, err := unix.InotifyAddWatch(fd, ".", unix.IN_MOVED_TO|unix.IN_MODIFY); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "ready")
	last := ""
	for buf := make([]byte, 4096); ; {
		if how == "events" {
			if _, err := unix.Read(fd, buf); err != nil {
				return err
			}
		} else {
			time.Sleep(time.Millisecond)
		}
		now := time.Now()
		text, err := os.ReadFile(editedFile)
		switch {
		case err != nil:
			return err
		case string(text) == editsEnd:
			return nil
		case string(text) != last:
			last = string(text)
			fmt.Fprintln(stdout, now.UnixNano())
		}
	}
}
