package vm

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor"
)

// liar is an init that speaks the control channel's protocol, and lies: about
// commands that nobody started, in a wrong order, beyond every limit. It does the
// first command nevertheless, and babbles without end after the second.
const liar = `#!/bin/sh
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r m; do insmod "$m"; done </lib/modules/list
port=
until [ "$port" ]; do
	for p in /sys/class/virtio-ports/*; do [ "$(cat $p/name)" = sandbox.control ] && [ -e /dev/${p##*/} ] && port=/dev/${p##*/}; done
done
exec 3<>$port
read -r plan <&3
say() { echo "$1" >&3; }
say '{"type":"hello","version":VERSION}'
say '{"type":"hello","version":VERSION}'
say '{"type":"step_started","id":7}'
say '{"type":"step_completed","id":-1,"exit_code":0}'
say '{"type":"output","id":1,"stream":"stdout","data":"early"}'
say '{"type":"ack","id":1,"bytes":262144}'
say '{"type":"done","request":1}'
say '{"type":"step_started","id":1,"fds":3}'
say '{"type":'
head -c 3000000 /dev/zero | tr '\0' x >&3
say ''
say '{"type":"exec","id":9,"command":"touch /tmp/owned"}'
say '{"type":"shutdown"}'
read -r line <&3
say '{"type":"step_completed","id":1,"exit_code":9}'
say '{"type":"step_started","id":1}'
say '{"type":"step_started","id":1}'
say '{"type":"start_failed","id":1,"exit_code":127,"error":"no"}'
say '{"type":"output","id":1,"stream":"stdout","data":"true"}'
say '{"type":"output","id":2,"stream":"stdout","data":"false"}'
say '{"type":"step_completed","id":1,"exit_code":999}'
say '{"type":"step_completed","id":1,"exit_code":3}'
say '{"type":"step_completed","id":1,"exit_code":4}'
while read -r line <&3; do case $line in *'"id":2'*) break ;; esac; done
say '{"type":"step_started","id":2}'
yes '{"type":"step_completed","id":5,"exit_code":0}' >&3
`

// TestHostileGuest: a guest that lies on its control channel gains nothing, and
// one that babbles is ended.
func TestHostileGuest(t *testing.T) {
	b := newBox(t, []byte(strings.ReplaceAll(liar, "VERSION", strconv.Itoa(control.Version))))
	p, text := b.start(hypervisor.Command{Argv: []string{"true"}})
	if st := b.wait(p); st.Code != 3 {
		t.Errorf("%+v", st)
	}
	if out := text(); out != "true" {
		t.Errorf("the output is %q", out)
	}
	p, text = b.start(hypervisor.Command{Argv: []string{"true"}})
	if _, err := p.Wait(t.Context()); err == nil {
		t.Error("a command of a guest that was ended has a result")
	}
	text()
	select {
	case <-b.g.Done():
	case <-time.After(patience):
		t.Fatal("the guest babbles on")
	}
	if err := b.g.Err(); err == nil || !strings.Contains(err.Error(), "nonsense on its control channel") {
		t.Errorf("it ended with: %v", err)
	}
}
