package escape

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// TestDynamicCrowd: more threads than the supervisor has wait for what nobody has allowed, where an overlay lies over the gate, and
// set attributes of it. The folder goes on, whoever is killed is gone, and with the last who waits the question is.
func TestDynamicCrowd(t *testing.T) { overBridges(t, dynamicCrowd) }

func dynamicCrowd(t *testing.T, b hypervisor.Bridge) {
	l := newLab(t, func(l *lab, c *api.Config) {
		l.share = true
		dynamic(l.home, b, c)
		put(t, l.home+"/letter", treasure)
		put(t, l.home+"/notes/a", treasure)
		put(t, l.work+"/in/a", "")
		if os.Getuid() == 0 { // only its owner can write to it
			for _, path := range []string{"", "letter", "notes", "notes/a"} {
				must(t, os.Chown(filepath.Join(l.home, path), jail.AnonymousUID, jail.AnonymousUID))
			}
		}
	})
	for _, way := range []string{"file", "directory"} {
		crowd := l.start(program, "attack", "crowd", way, l.home, "1200")
		l.event(api.EventSafeguardTriggered)
		crowd.expect("all there", patience)
		l.works("echo x >in/" + way + " && mkdir in/d && rmdir in/d && chmod 600 in/" + way + " && mv in/" + way + " in/a")
		crowd.say("end")
		if out := crowd.wait().out; out != "all there" {
			t.Error(out)
		}
		nobodyWaits(l)
		l.works("echo x >in/b && rm in/b")
	}
}

// TestDynamicKilled: a process that is killed while it is held is gone at once, and the question with it, though its folder's calls are
// answered outside. An answer that comes then is an error that says so, and allows nothing: the next process is asked about.
func TestDynamicKilled(t *testing.T) { overBridges(t, dynamicKilled) }

func dynamicKilled(t *testing.T, b hypervisor.Bridge) {
	l := newLab(t, func(l *lab, c *api.Config) {
		l.share = true
		dynamic(l.home, b, c)
		c.Gates = []string{l.home + "/asked"}
		put(t, l.home+"/asked/a", treasure)
	})
	for _, call := range []string{"cat", "echo x >", "chmod 600", "stat"} {
		c := l.start("sh", "-c", call+" ~/asked/a & p=$!; read go; kill -9 $p; wait $p; echo status $?; echo x >after && rm after")
		id := l.event(api.EventSafeguardTriggered).Pending.ID
		c.say("kill it")
		if r := c.wait(); r.err != nil || r.Status.Code != 0 || !strings.HasSuffix(r.out, "status 137") || strings.Contains(r.out, treasure) {
			t.Errorf("%s: %+v", call, r)
		}
		nobodyWaits(l)
		var late *messages.DecidedError
		if err := l.Decide(t.Context(), api.DecideRequest{ID: id, Allow: true, By: "test"}); !errors.As(err, &late) || late.By != messages.ByWithdrawn {
			t.Errorf("%s: an answer after its death: %v", call, err)
		}
	}
}

// nobodyWaits returns when no question waits for an answer.
func nobodyWaits(l *lab) {
	l.t.Helper()
	actortest.Eventually(l.t, "nothing waits any more", func() bool {
		pending, err := l.Pending(l.t.Context())
		return err == nil && len(pending) == 0
	})
}

// crowd has threads open, and change, what is held, and ends when it is told to.
func crowd(args []string) error {
	file, dir := args[1]+"/letter", args[1]+"/notes"
	calls := []func(i int) error{
		func(int) error { _, err := unix.Open(file, unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0); return err },
		func(int) error { return unix.Chmod(file, 0o600) },
		func(int) error { return unix.Utimes(file, nil) },
		func(int) error { return unix.Setxattr(file, "user.a", []byte("b"), 0) },
	}
	if args[0] == "directory" {
		calls = []func(i int) error{
			func(i int) error { return unix.Mkdir(dir+"/"+strconv.Itoa(i), 0o755) },
			func(int) error { return unix.Chmod(dir+"/a", 0o600) },
			func(int) error {
				_, err := unix.Open(dir+"/a", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
				return err
			},
			func(int) error { return unix.Rename(dir+"/a", dir+"/b") },
		}
	}
	go calls[0](0) // what is held first
	var there sync.WaitGroup
	for i := range number(args[2]) {
		there.Add(1)
		go func() {
			there.Done()
			_ = calls[i%len(calls)](i)
		}()
	}
	there.Wait()
	fmt.Println("all there")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}
