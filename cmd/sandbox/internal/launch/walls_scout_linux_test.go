package launch

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
)

func TestMain(m *testing.M) {
	if IsScout(os.Args) {
		r, _, err := os.Pipe() // so that Go's runtime waits with descriptors of its own, as it does in the program
		if err != nil {
			os.Exit(3)
		}
		go func() { _, _ = r.Read(make([]byte, 1)) }()
		os.Exit(Scout(os.Args, os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// TestScoutProcess: a scout keeps nothing open that it was started with, finds what the reader of a pipe writes, and lives until nobody asks any more.
func TestScoutProcess(t *testing.T) {
	inherited, passed, err := os.Pipe()
	must(t, err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.ExtraFiles, cmd.Stderr = []string{scoutProgram}, []*os.File{passed}, os.Stderr
	asks, err := cmd.StdinPipe()
	must(t, err)
	answers, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	must(t, passed.Close())
	if _, err := inherited.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the end of what was passed: %v", err)
	}

	log, err := os.Create(t.TempDir() + "/log") // written by who reads the pipe: this process
	must(t, err)
	defer log.Close()
	a := &asker{asks: json.NewEncoder(asks), answers: json.NewDecoder(answers)}
	for range 2 {
		if got := a.readers([]api.FileID{id(t, inherited)}); !slices.Contains(got, id(t, log)) {
			t.Errorf("of the pipe: %v", got)
		}
	}
	must(t, asks.Close())
	must(t, cmd.Wait())
}

func id(t *testing.T, f *os.File) api.FileID {
	t.Helper()
	var st syscall.Stat_t
	must(t, syscall.Fstat(int(f.Fd()), &st))
	return api.FileID{Device: st.Dev, Inode: st.Ino}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
