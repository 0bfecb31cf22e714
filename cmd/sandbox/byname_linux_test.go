package main

import (
	"slices"
	"strings"
	"testing"
)

// TestDescriptorsByName: a descriptor's name in /proc is the command's own, however it is isolated: what is opened, written and changed by it is
// the file that the command has open under that number, and nothing that the supervisor has.
func TestDescriptorsByName(t *testing.T) {
	const script = `chmod 755 .; mkdir d; umask 022
for i in 3 4 5 6 7 8 9 10 11 12 13 14; do
	case $((i % 3)) in 0) p=/proc/self/fd/$i;; 1) p=/dev/fd/$i;; 2) p=/proc/thread-self/fd/$i;; esac
	eval "exec $i<>f$i"; echo data$i >$p && chmod 751 $p && touch -d @981173106 $p || echo "$p: failed"
	test "$(cat f$i) $(stat -c '%a %Y' f$i)" = "data$i 751 981173106" || echo "$p: $(cat f$i) $(stat -c '%a %Y' f$i)"
done
exec 3<d; echo x >/dev/fd/3/x && chmod 700 /dev/fd/3 && test "$(stat -c %a d) $(cat d/x)" = "700 x" || echo "directory: $(stat -c %a d) $(ls d)"
echo over >out; exec >>out; echo x >/dev/stdout; test "$(stat -c %a .)" = 755 || echo "the folder: $(stat -c %a .)"
test "$(cat out)" = x || cat out >&2`
	for _, with := range isolations(t) {
		t.Run(strings.Join(with, " "), func(t *testing.T) {
			args := slices.Concat([]string{"run"}, with, []string{"--", "bash", "-c", script})
			if out := newDesk(t).must(args...); out != "" {
				t.Error(out)
			}
		})
	}
}
