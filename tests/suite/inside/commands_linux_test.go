package inside

import (
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// A server in a terminal and one that becomes a service run on while steps are made and undone beside them; they answer, and end with their session.
func TestServersKeepNobodyFromAnUndo(t *testing.T) {
	everywhere(t, func(l *lab) {
		ctx := t.Context()
		before := treesnap.MustTake(t, l.work)
		const server = `stty -echo 2>/dev/null; echo ready; while read line; do echo "$line" > answer; echo "answer $line"; done`
		for _, change := range []func(*api.CommandRequest){
			func(r *api.CommandRequest) { r.Terminal, r.Service = &api.CommandTerminal{Rows: 24, Cols: 80}, true },
			func(r *api.CommandRequest) { r.Stdin, r.ServiceAfter = true, time.Millisecond },
		} {
			r := api.CommandRequest{Argv: []string{"sh", "-c", server}, Share: true, Wait: true}
			change(&r)
			left := make(chan struct{}, 1)
			stop := l.Subscribe(func(api.Event) { left <- struct{}{} }, api.EventServiceStarted)
			st, err := l.StartCommand(ctx, r)
			must(t, err)
			said := make(chan string, 16)
			go func() {
				_ = l.FollowCommand(ctx, api.FollowRequest{Number: st.Number}, func(e api.CommandEvent) error {
					for _, line := range strings.Split(string(e.Data), "\n") {
						if line = strings.TrimSpace(line); line != "" {
							said <- line
						}
					}
					return nil
				})
			}()
			expect := func(want string) {
				t.Helper()
				for {
					select {
					case line := <-said:
						if line == want {
							return
						}
					case <-time.After(patience):
						t.Fatalf("it never says %q", want)
					}
				}
			}
			expect("ready")
			<-left
			stop()
			l.works("echo changed > file")
			_, err = l.Undo(ctx, api.UndoRequest{Count: 1, Force: true})
			must(t, err)
			treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.work))
			must(t, l.InputCommand(ctx, api.CommandInput{Number: st.Number, Data: []byte("hello\n")}))
			expect("answer hello")
			l.works("true") // what is written after it belongs to another step
			h, err := l.History(ctx, api.HistoryRequest{})
			if err != nil || len(h) == 0 || h[0].Type != undolog.TypeAmbient {
				t.Errorf("%+v, %v", h, err)
			}
			if _, err := l.Undo(ctx, api.UndoRequest{Count: 1, Force: true}); err != nil {
				t.Error(err)
			}
			treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.work))
			if v, err := l.Services(ctx); err != nil || len(v) == 0 {
				t.Errorf("%+v, %v", v, err)
			}
		}
	})
}
