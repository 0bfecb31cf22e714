package actors

import (
	"bufio"
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
)

// What a program inside says first must be a command; all else is answered with an
// error, and no step is begun.
func TestInsideGarbage(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":      "",
		"no JSON":      "hello\n",
		"an end":       `{"ended":true}` + "\n",
		"no command":   `{"dir":"/"}` + "\n",
		"not UTF-8":    `{"command":"` + "\xff" + `"}` + "\n",
		"another type": `[1]` + "\n",
		"too long":     `{"command":"` + strings.Repeat("x", api.InsideMaxLine) + `"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			n := &insider{} // it has no session: a step that is begun panics
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer ours.Close()
				n.talk(ours)
			}()
			go func() {
				_, _ = theirs.Write([]byte(text)) // it may not be read to its end
				if text == "" {
					_ = theirs.Close()
				}
			}()
			answer, _ := bufio.NewReader(theirs).ReadString('\n')
			if text != "" && !strings.Contains(answer, `"error"`) {
				t.Errorf("answer %q", answer)
			}
			<-done
		})
	}
}

// FuzzInside feeds lines of programs inside to the decoder: it must not panic, and keeps
// no more than a line may have.
func FuzzInside(f *testing.F) {
	f.Add([]byte(`{"command":"true","dir":"/work"}` + "\n"))
	f.Add([]byte(`{"ended":true,"exit_code":3}` + "\n"))
	f.Add([]byte("{\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := readInside(bufio.NewReaderSize(bytes.NewReader(text), api.InsideMaxLine))
		if err == nil && len(r.Command)+len(r.Dir) > api.InsideMaxLine {
			t.Errorf("%d bytes", len(r.Command)+len(r.Dir))
		}
	})
}
