package window

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const holderEnv = "WINDOW_TEST_HOLDER"

func TestMain(m *testing.M) {
	if os.Getenv(holderEnv) != "" { // another session: it says what it has, and keeps it until it is killed
		_, err := Allot(ofThisTest())
		fmt.Println(err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

// ofThisTest is a window of which none is allotted unless it is named: sessions of other tests do not take it.
func ofThisTest() Settings { return Settings{Strategy: Fail, BasePort: poolEnd + 100, PortCount: 4} }

// TestAllotApart: sessions that begin at once have windows and addresses that do not overlap, whatever their sizes.
func TestAllotApart(t *testing.T) {
	var mu sync.Mutex
	var work sync.WaitGroup
	owner := map[string]int{}
	for i := range 24 {
		work.Go(func() {
			s := Settings{Strategy: []Strategy{Fail, RewirePort, RewireDevice}[i%3], PortCount: 5 + i}
			w, err := Allot(s)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = w.Close() })
			mu.Lock()
			defer mu.Unlock()
			var has []string
			for port := range w.count {
				has = append(has, fmt.Sprint(int(w.base)+port))
			}
			if w.device.IsValid() {
				has = append(has, w.device.String())
			}
			for _, h := range has {
				if before, ok := owner[h]; ok {
					t.Errorf("sessions %d and %d both have %s", before, i, h)
				}
				owner[h] = i
			}
		})
	}
	work.Wait()
}

// TestAllotNamed: what somebody has is refused to who names it, and is free again when it is closed. A program of somebody else's is gone around.
func TestAllotNamed(t *testing.T) {
	w, err := Allot(ofThisTest())
	if err != nil {
		t.Fatal(err)
	}
	named := Settings{Strategy: RewirePort, BasePort: int(w.base) + 3, PortCount: 2}
	if other, err := Allot(named); err == nil || !strings.Contains(err.Error(), "another session has it") {
		t.Errorf("%v, %v", other, err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	again, err := Allot(named)
	if err != nil {
		t.Error(err)
	}
	_ = again.Close()

	device, err := Allot(Settings{Strategy: RewireDevice})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	if other, err := Allot(Settings{Strategy: RewireDevice, Loopback: device.device.String()}); err == nil || !strings.Contains(err.Error(), "another session has it") {
		t.Errorf("%v, %v", other, err)
	}

	first, err := Allot(Settings{Strategy: Fail})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first.base))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := first.base
	_ = first.Close()
	second, err := Allot(Settings{Strategy: Fail})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if second.Has(port) {
		t.Errorf("somebody listens at %d, and %s were allotted", port, second)
	}
}

// TestAllotEndsWithProcess: a session that is killed gives its window back.
func TestAllotEndsWithProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "<nil>\n" {
		t.Fatalf("%q", line)
	}
	s := ofThisTest()
	if _, err := Allot(s); err == nil {
		t.Error("two processes have one window")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	w, err := Allot(s)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := w.Variables(), []string{fmt.Sprintf("LISTENING_BASE_PORT=%d", s.BasePort), "LISTENING_PORT_COUNT=4"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	_ = w.Close()
}
