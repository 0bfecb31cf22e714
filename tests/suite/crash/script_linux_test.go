package crash

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// prelude defines pick TYPE N: the N-th path of that type, of those that there
// are.
const prelude = `
pick() { find . -mindepth 1 -type "$1" | LC_ALL=C sort | awk -v n="$2" '{a[NR]=$0} END {if (NR) print a[n%NR+1]}'; }
`

// mutations are what a script is made of. F, G and D stand for picked files and
// a picked directory, N for a number. Each may fail: the tree is whatever the
// others made of it.
var mutations = []string{
	`echo appended N >> "F"`,
	`echo replaced N > "F"`,
	`dd if=/dev/urandom of="F" bs=1k count=3 seek=$((N % 700)) conv=notrunc status=none`,
	`truncate -s $((N % 90000)) "F"`,
	`truncate -s $((N * 100)) "F"`,
	`fallocate -p -o $((N % 50000)) -l 8192 "F"`,
	`rm -f "F"`,
	`rm -rf "D"`,
	`rmdir "D"`,
	`mv "F" new-N`,
	`mv "F" "D"/`,
	`mv -f "F" "G"`,
	`mv "D" moved-N`,
	`mv "D" other-N && mkdir "D" && echo in its place > "D"/f`,
	`mkdir -p deep-N/a/b/c && echo x > deep-N/a/b/c/d && mv "F" deep-N/a/`,
	`ln "F" hard-N`,
	`ln "F" "D"/hard-N`,
	`ln -s "F" soft-N`,
	`ln -sf elsewhere "F"`,
	`chmod 0$((N % 8))$((N / 8 % 8))4 "F"`,
	`chmod 07$((N % 8))5 "D"`,
	`touch -d @$((N * 7919)) "F"`,
	`touch -d @$((N * 7919)) "D"`,
	`setfattr -n user.k -v vN "F"`,
	`setfattr -x user.test "F"`,
	`cp -a "D" copy-N`,
	`mkfifo pipe-N`,
	`for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i > small-N-$i; done`,
	`rm -f small-*`,
	`mkdir tar-N && tar cf - src hard 2>/dev/null | tar xf - -C tar-N`,
	`( exec 9>>"F"; rm -f "F"; echo into the unlinked >&9 )`,
	`cp "F" tmp-N && mv tmp-N "F"`,
	scattered, scattered, scattered,
}

// scattered are many writes in a file, from its end backwards, so that each
// captures the few kilobytes that it changes and no more.
const scattered = `perl -e 'open(L, "+<", "large/d000/f00000") or exit; for (1..250) { sysseek(L, 4096 * (255 - $_), 0); syswrite(L, "N" x 1024) }'`

// script makes a random script of n mutations, which says "go" first.
func script(r *rand.Rand, n int) string {
	var b strings.Builder
	b.WriteString(prelude + "echo go\n")
	for range n {
		m := mutations[r.IntN(len(mutations))]
		number := fmt.Sprint(r.IntN(1000))
		line := strings.NewReplacer(
			`"F"`, `"$F"`, `"G"`, `"$G"`, `"D"`, `"$D"`, "N", number,
		).Replace(m)
		fmt.Fprintf(&b, "F=$(pick f %d); G=$(pick f %d); D=$(pick d %d); { %s; } 2>/dev/null\n",
			r.IntN(1000), r.IntN(1000), r.IntN(1000), line)
	}
	b.WriteString("true\n")
	return b.String()
}
