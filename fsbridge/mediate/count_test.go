//go:build linux

package mediate

import (
	"strconv"
	"testing"
)

// Each kind of operation asks as often as the table says: what changes nothing never asks.
func TestMBNotifications(t *testing.T) {
	const times = 50
	for op, each := range map[string]int{
		"read": 0, "stat": 0, "write": 1, "append": 1, "chmod": 1, "futimens": 1,
		"create": 2, // removed afterwards
		"mkdir":  3, // the same: Go tries unlink and rmdir
		"unlink": 2, // made before
		"rename": 3, // made before, removed afterwards
	} {
		t.Run(op, func(t *testing.T) {
			j := newJail(t)
			in := j.start("bench", op)
			// What surrounds the operations asks, too: the difference of two runs is theirs.
			var asked [2]uint64
			for i := range asked {
				before := j.server.Figures().Notifications
				in.say(strconv.Itoa((i + 1) * times))
				in.hear()
				in.say("0")
				in.hear() // answered when all before it is counted
				asked[i] = j.server.Figures().Notifications - before
			}
			in.say("end")
			in.ok()
			// Go and the cleaning up ask a few times more or less.
			got, want := int(asked[1])-int(asked[0]), each*times
			if got < want-times/4 || got > want+times/4 {
				t.Errorf("%d more operations asked %d times more, want %d", times, got, want)
			}
		})
	}
}
