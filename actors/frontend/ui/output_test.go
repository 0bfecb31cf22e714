package ui

import (
	"net/http"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// TestOutput: what a command wrote leaves as text in JSON, cut where something is missing, whatever the log says.
func TestOutput(t *testing.T) {
	f := newFake()
	f.output = []undolog.CommandOutput{
		{Command: "make\xff", Bytes: 20, LeftOut: 10, Cut: 4, Data: []byte("head<b>\xfetail")},
		{Command: "x", Bytes: 9, LeftOut: 9, Cut: 1 << 40},
		{Command: "y", Bytes: 3, Cut: -7, Data: []byte("all")},
	}
	x := newLab(t, f)
	r := x.get("/api/folders/" + folderID("/work") + "/steps/1/output")
	for _, want := range []string{`"command":"make` + "\uFFFD" + `"`, `"left_out":10,"head":"head","tail":"\u003cb\u003e` + "\uFFFD" + `tail"`, `"left_out":9,"head":""`, `"head":"all","tail":""`} {
		if r.status != http.StatusOK || !strings.Contains(r.body, want) {
			t.Errorf("no %s in %+v", want, r)
		}
	}
	if r := x.get("/api/folders/" + folderID("/work") + "/steps/no/output"); r.status != http.StatusBadRequest {
		t.Errorf("%+v", r)
	}
}
