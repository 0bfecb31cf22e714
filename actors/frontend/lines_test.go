package frontend

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// Lines are told apart however they end; what is above the limit is skipped, and
// its field is found wherever it stands.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	in := "one\ntwo\r\n\n" +
		`{"a":"` + long + `","id":7,"b":{"id":8}}` + "\n" +
		strings.Repeat("y", 100) + "\r\n" + strings.Repeat("z", 101) + "\n" + "last"
	l := NewLines(strings.NewReader(in), 100)
	for _, want := range []string{"one", "two", "", "!7", strings.Repeat("y", 100), "!", "last"} {
		line, err := l.Next()
		got := string(line)
		if errors.Is(err, ErrLineTooLong) {
			got = "!" + string(l.Skip("id"))
		} else if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%.50q, want %.50q", got, want)
		}
	}
	if _, err := l.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if l.Read() != int64(len(in)) {
		t.Errorf("%d bytes of %d", l.Read(), len(in))
	}
}
