package posixmeta

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files are what a [Folder] has at the start, with their contents: no metadata of ours yet.
var Files = map[string]string{"a.txt": "a", "tool": "tool", "run.sh": "true", "d/x": "x", "kept": "kept"}

// Folder is a folder that is served as if its file system were Windows', with [Files] in it.
type Folder struct {
	*testing.T
	// Host is where it is on the host, for Linux.
	Host string
	// Run runs a script inside, as a step, and returns what it wrote to stdout, and its exit code.
	Run func(script string) (stdout string, code int)
	// Undo and Redo are of the newest step.
	Undo, Redo func()
	// Superuser says that commands have all rights inside, as in a machine.
	Superuser bool
}

// Cases are the tests that any host must pass, by the names that the specification has for them. The last one changes the host's files.
var Cases = []struct {
	Name string
	Test func(f *Folder)
}{
	{"WN-01 case collision", caseCollision},
	{"WN-02 reserved names", reservedNames},
	{"WN-03 persistence", persistence},
	{"WN-05 rollback", rollback},
	{"WN-04 defaults", defaults},
}

// sh runs a script that must succeed.
func (f *Folder) sh(script string) string {
	f.Helper()
	out, code := f.Run(script)
	if code != 0 {
		f.Fatalf("%s: exit status %d, %s", script, code, out)
	}
	return strings.TrimSpace(out)
}

// says compares what a script prints.
func (f *Folder) says(want, script string) {
	f.Helper()
	if got := f.sh(script); got != want {
		f.Errorf("%s: %q, want %q", script, got, want)
	}
}

// refused fails unless every one of the commands fails with that error.
func (f *Folder) refused(want string, commands ...string) {
	f.Helper()
	var script strings.Builder
	for i, c := range commands {
		fmt.Fprintf(&script, "echo ---%d; if ( %s ) 2>&1; then echo succeeded; fi\n", i, c)
	}
	out := f.sh(script.String())
	for i, c := range commands {
		_, said, begun := strings.Cut(out, fmt.Sprintf("---%d\n", i))
		said, _, _ = strings.Cut(said, "---")
		if !begun || !strings.Contains(said, want) || strings.Contains(said, "succeeded") {
			f.Errorf("%s: %q, want %q", c, said, want)
		}
	}
}

// plain fails unless everything on the host is a plain file or directory that
// its owner may read and write.
func (f *Folder) plain() {
	f.Helper()
	err := filepath.WalkDir(f.Host, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err == nil && (!st.Mode().IsRegular() && !st.IsDir() || st.Mode().Perm()&0o600 != 0o600) {
			f.Errorf("%s is %v on the host", path, st.Mode())
		}
		return err
	})
	if err != nil {
		f.Error(err)
	}
}

// caseCollision: of two names that differ only in case the second is refused, however it
// is made; a name may change its case.
func caseCollision(f *Folder) {
	f.sh("echo foo >Foo; mkdir Dir")
	f.refused("File exists", "echo x >foo", "mkdir FOO", "ln -s a.txt fOO", "ln a.txt fOo", "mkdir dIR", "mkfifo DIR")
	f.refused("mv: can", "mv a.txt foO", "mv d DIR", "mv -f a.txt FOO") // it says why in its own way
	f.says("foo", "cat Foo; rm Foo; echo x >foo; mv foo FOO; mv FOO Foo; rm Foo; touch foo; rm foo; echo y >FoO; rm FoO")
	f.says("", "i=0; while [ $i -lt 50 ]; do touch n$i; mv n$i N$i; rm N$i; touch n$i; i=$((i+1)); done; ls | grep N || true")
}

// reservedNames: names that Windows does not have are refused, wherever they come from.
func reservedNames(f *Folder) {
	var make []string
	for _, name := range []string{"CON", "nul", "NUL.txt", "com1", "LPT9.log", "aux", "end.", "end ", "a:b", `a\b`, "a?", "a*", "a|b", `a"b`, "a<", "a>"} {
		make = append(make, ": >'"+name+"' || touch '"+name+"'")
	}
	f.refused("Invalid argument", append(make, "mkdir con", "ln -s a.txt prn", "ln a.txt prn", "mkfifo 'q?'")...)
	f.refused("mv: can", "mv a.txt x.", "mv a.txt nul")
	f.says("a.txt d kept run.sh tool", "ls | xargs")
}

// persistence: what the host cannot hold lasts beyond the step, follows renames and
// links, and the host's files stay plain.
func persistence(f *Folder) {
	f.sh(`chmod 755 tool; chmod 600 a.txt; mkdir -m 700 new; (umask 077; echo x >new/secret); ln -s ../tool new/link; ln -s a.txt l
mkfifo new/pipe; ln tool hard; chmod 500 d; mv new newer; ln -s gone dangling; mv dangling newer/`)
	f.plain()
	f.says("755 600 700 600 500 755", "stat -c %a tool a.txt newer newer/secret d hard | xargs")
	f.says("symbolic link,symbolic link,fifo", "stat -c %F newer/link l newer/pipe | paste -sd,")
	f.says("tool ../tool gone", "cat newer/link; echo \" $(readlink newer/link) $(readlink newer/dangling)\"")
	f.says("3", "find . -type l | wc -l")
	if !f.Superuser {
		f.refused("Permission denied", "echo x >d/new")
	}
	if b, err := os.ReadFile(filepath.Join(f.Host, "newer", "link")); err != nil || string(b) != "../tool" {
		f.Errorf("on the host the symlink is %q, %v", b, err)
	}
	f.sh("chmod 700 d; rm -r newer d hard l")
	f.says("a.txt kept run.sh tool", "ls | xargs")
	f.says("644", "mkdir newer; echo x >newer/secret; stat -c %a newer/secret") // it is another
}

// defaults: what nobody set a mode for has a likely one.
func defaults(f *Folder) {
	f.says("644 644 755 755 644", "stat -c %a a.txt tool run.sh d d/x | xargs")
	if err := os.Chmod(filepath.Join(f.Host, "a.txt"), 0o400); err != nil {
		f.Fatal(err)
	}
	f.says("444", "stat -c %a a.txt")
	f.says("ab", "chmod u+w a.txt; printf b >>a.txt; cat a.txt") // the host lets us, too
}

// state is what a step can change, as it is seen inside.
func (f *Folder) state() string {
	f.Helper()
	return f.sh("find . | sort | while read -r f; do stat -c '%n %F %a' \"$f\"; readlink \"$f\" || true; done")
}

// change touches every kind of metadata there is.
const change = `chmod 711 tool; chmod 640 a.txt; ln -s tool link; mv d e; chmod 750 e; rm a.txt; echo new >a.txt; chmod 600 a.txt
mkdir -m 711 f; mv run.sh f/; chmod 700 f/run.sh; ln tool tool2; rm tool; mkfifo pipe`

// rollback: undo and redo put modes and symlinks back as they were.
func rollback(f *Folder) {
	f.sh("chmod 700 tool; ln -s a.txt old; chmod 711 d")
	before := f.state()
	f.sh(change)
	after := f.state()
	if before == after {
		f.Fatal("nothing changed")
	}
	check := func(what, want string) {
		f.Helper()
		if got := f.state(); got != want {
			f.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
		}
	}
	f.Undo()
	check("undone", before)
	f.Redo()
	check("redone", after)
	f.Undo()
	check("undone again", before)

	// Only metadata: a step like any other.
	f.sh("chmod 777 tool")
	f.says("777", "stat -c %a tool")
	f.Undo()
	check("a mode undone", before)
}
