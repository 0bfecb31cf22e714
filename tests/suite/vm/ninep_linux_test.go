package vm

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// workOver9P is what a guest does to the folder, by Linux's own client.
const workOver9P = `set -e
grep " 9p " /proc/mounts >&2
[ "$(ls /sys/class/net)" = lo ] || { echo "the cable is in sight"; exit 1; }
[ "$(cat a)" = first ]; [ "$(md5sum < big)" = "$1  -" ]; [ "$(stat -c %h a)" = 2 ]; [ "$(cat deep/er/f)" = f ]
echo changed > a; echo more >> b; [ "$(cat hard)" = changed ]
dd if=big of=copy bs=100k 2>/dev/null; sync; [ "$(md5sum < copy)" = "$1  -" ]
dd if=b of=big bs=1 seek=70000 conv=notrunc 2>/dev/null
mkdir d; mv deep/er/f d/g; ln d/g d/link; ln -s ../a d/sym; [ "$(cat d/sym)" = changed ]; chmod 600 b; touch -d @1000000000 b
[ "$(stat -c '%a %Y' b)" = "600 1000000000" ]
mkfifo pipe; (echo through > pipe &); [ "$(cat pipe)" = through ]
truncate -s 5 c; mv c c2; [ "$(wc -c < c2)" = 5 ]; echo over > n; mv n c2; rmdir empty
mkdir many; i=0; while [ $i -lt 20 ]; do echo $i > many/a-name-that-is-not-short-$i; i=$((i+1)); done
[ "$(ls many | wc -l)" = 20 ]; tar cf t.tar many; rm -r many; tar xf t.tar; [ "$(cat many/*-19)" = 19 ]
exec 3<>u; echo gone >&3; rm u; [ "$(cat /proc/self/fd/3)" = gone ]; exec 3>&-
for no in "mknod dev c 1 3" "cat nothing" "mkdir many" "rmdir many" "ln many hardlink" "chown 0:0 a"; do
  if $no 2>/dev/null; then echo "allowed: $no"; exit 1; fi
done
chmod u+s a
$2
echo done`

// TestNineP: Linux's 9P client in a real machine works on a folder as on any,
// through the whole program, and the step is undone to the same tree.
func TestNineP(t *testing.T) {
	require.Root(t) // in one of CI's passes
	require.Program(t, "qemu-system-x86_64", "qemu-system-x86")
	cache := guestimage.Cache(t)
	big := []byte(strings.Repeat("0123456789abcdef", 200_000))
	s := drive.New(t, func(t testing.TB, root string) {
		for _, dir := range []string{"empty", "deep/er"} {
			check(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
		}
		for name, content := range map[string]string{"a": "first", "b": "second", "c": strings.Repeat("c", 100_000), "deep/er/f": "f", "big": string(big)} {
			check(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o644))
		}
		check(t, os.Link(filepath.Join(root, "a"), filepath.Join(root, "hard")))
	})
	s.Env = append(s.Env, "XDG_CACHE_HOME="+cache)
	before := treesnap.MustTake(t, s.Dir)
	sum := md5.Sum(big)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience) // emulated, and a busy machine
	defer cancel()
	cmd := s.Command(ctx, "run", "--isolation", "vm", "--fs-backend", "9p", "--memory", "256MiB", "--",
		"sh", "-c", workOver9P, "sh", hex.EncodeToString(sum[:]), "rm -rf deep big hard copy")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "done") {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range map[string]string{"a": "changed\n", "b": "secondmore\n", "c2": "over\n", "d/g": "f", "many/a-name-that-is-not-short-7": "7\n"} {
		if got, err := os.ReadFile(filepath.Join(s.Dir, name)); err != nil || string(got) != want {
			t.Errorf("the host has %s: %q, %v", name, got, err)
		}
	}
	if st, err := os.Stat(filepath.Join(s.Dir, "a")); err != nil || st.Mode()&os.ModeSetuid != 0 {
		t.Errorf("the host has a: %v, %v", st.Mode(), err)
	}
	if _, err := os.Lstat(filepath.Join(s.Dir, "deep")); !os.IsNotExist(err) {
		t.Errorf("not removed: %v", err)
	}
	if r := s.Do(t, "undo"); r.Code != 0 {
		t.Fatalf("undo: exit %d\n%s", r.Code, r.Stderr)
	}
	// The log keeps a link of what lost one of two names.
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, s.Dir), treesnap.Options{IgnoreLinks: true})
}

// fetched gives s an image as somebody has it who can build none: one that was packed elsewhere, and is installed by its checksum.
func fetched(t *testing.T, s *drive.Sandbox, images string) {
	t.Helper()
	dir := t.TempDir()
	archive := filepath.Join(dir, "sandbox_0.0.0_guest_amd64.tar.zst")
	var built struct{ Archive struct{ SHA256 string } }
	check(t, json.Unmarshal([]byte(s.Must(t, "guest", "build", "--generic", "--arch", "amd64", "--image-dir", images, "--archive", archive, "--json").Stdout), &built))
	sums := filepath.Join(dir, "checksums.txt")
	check(t, os.WriteFile(sums, []byte(built.Archive.SHA256+"  "+filepath.Base(archive)+"\n"), 0o600))
	s.Env = append(s.Env, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	s.Must(t, "guest", "fetch", archive, "--arch", "amd64", "--sums", sums)
}

// TestNinePStrict: with --cache none the first look at a file, its size and its
// directory shows what the host has, though the guest has just looked before. It
// looks before it could be told. The machine boots an image that was fetched; at last it
// removes all that is there, which is undone and redone.
func TestNinePStrict(t *testing.T) {
	require.Root(t) // in one of CI's passes
	require.Program(t, "qemu-system-x86_64", "qemu-system-x86")
	cache := guestimage.Cache(t)
	s := drive.New(t, func(t testing.TB, root string) {
		check(t, os.WriteFile(filepath.Join(root, "f"), []byte("version 0"), 0o644))
		check(t, os.WriteFile(filepath.Join(root, "new-0"), nil, 0o644))
	})
	fetched(t, s, filepath.Join(cache, "sandbox", "guest"))
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	cmd := s.Command(ctx, "run", "--isolation", "vm", "--fs-backend", "9p", "--memory", "256MiB", "--cache", "none", "--",
		"sh", "-c", `exec 3<f; look() { echo "$(cat f), $(stat -c %s f) bytes, $(ls | xargs), end"; }; while look && read go; do :; done; rm -rf *`)
	in, err := cmd.StdinPipe()
	check(t, err)
	p := begin(t, cmd)
	for i, name := range []string{"version 0", "version one", "v2", "the third version"} {
		if i == 1 {
			if r := s.Must(t, "status", "--json"); !strings.Contains(r.Stdout, `"protocol": "9P2000.L"`) {
				t.Errorf("status says of the bridge: %s", r.Stdout)
			}
		}
		if i > 0 {
			check(t, os.WriteFile(filepath.Join(s.Dir, "f"), []byte(name), 0o644))
			check(t, os.Rename(filepath.Join(s.Dir, fmt.Sprint("new-", i-1)), filepath.Join(s.Dir, fmt.Sprint("new-", i))))
			_, err := fmt.Fprintln(in, "look")
			check(t, err)
		}
		p.until(", end\n")
		if want := fmt.Sprintf("%s, %d bytes, f new-%d, end\n", name, len(name), i); !strings.HasSuffix(p.text(), want) {
			t.Errorf("the guest sees %q, the host has %q", p.text(), want)
		}
		p.forget()
	}
	before := treesnap.MustTake(t, s.Dir)
	check(t, in.Close())
	if code := p.code(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	for _, how := range []string{"", "undo", "redo"} {
		if how != "" {
			s.Must(t, how)
		}
		if now := treesnap.MustTake(t, s.Dir); how == "undo" {
			treesnap.AssertEqual(t, before, now)
		} else if n := len(now.Entries); n != 1 { // the folder itself
			t.Errorf("after rm -rf * and %q there are %d entries", how, n)
		}
	}
}
