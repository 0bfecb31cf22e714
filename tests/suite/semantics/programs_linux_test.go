package semantics

import (
	"slices"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/fixture"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// programs are what people run, by the program's name: each script is one step, in the tree
// of fixture.Small. A debugger needs a flag.
var programs = []struct {
	name, debian, script string
	flags                []string
}{
	{name: "git", debian: "git", script: `export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
		git init -q repo; cd repo; cp -r ../src ../small.txt .; git add -A; git commit -qm one
		git checkout -q -b other; echo more >>small.txt; git mv src lib; git commit -qam two; git checkout -q -; git merge -q other
		echo x >y; git stash -qu; git stash pop -q; git gc -q; git fsck; git reset -q --hard HEAD~1; git clone -q . ../clone; git status --short`},
	{name: "sqlite3", debian: "sqlite3", script: `for mode in delete wal truncate; do
		sqlite3 db "PRAGMA journal_mode=$mode; CREATE TABLE IF NOT EXISTS t (a, b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<500) INSERT INTO t SELECT i, hex(randomblob(50)) FROM n;"
		sqlite3 db "BEGIN; DELETE FROM t WHERE a%3=0; COMMIT; UPDATE t SET b=a; VACUUM; PRAGMA integrity_check"; done | grep -c ok | grep 3`},
	{name: "vim", debian: "vim", script: `vim -u NONE -es -c '%s/hello/goodbye/' -c 'wq' small.txt; grep goodbye small.txt
		vim -u NONE -es -c 'set backup backupcopy=yes' -c 'normal osecond' -c 'wq' small.txt; test -e small.txt~`},
	{name: "rsync", debian: "rsync", script: `rsync -a src/ copy/; echo changed >>src/main.rs; rsync -a --delete src/ copy/; rsync -a --inplace large.bin copy/big; rsync -aH pair-a pair-b copy/; cmp src/main.rs copy/main.rs`},
	{name: "tar", debian: "tar", script: `tar cf all.tar src large.bin pair-a pair-b link run.sh; mkdir out; tar xpf all.tar -C out; rm -r src; tar xf all.tar src; tar uf all.tar small.txt; tar tf all.tar | grep small.txt`},
	{name: "make", debian: "make", script: `printf 'all: a b\na: small.txt\n\tcp $< $@\nb: a\n\tcat a a >$@\nclean:\n\trm -f a b\n' >Makefile; make -j4; touch small.txt; make; make clean; make -s; make -q`},
	{name: "node", debian: "nodejs", script: `cat >x.js <<'END'
const fs = require('fs'), p = require('path');
fs.mkdirSync('n/m', {recursive: true});
for (let i = 0; i < 50; i++) fs.writeFileSync(p.join('n/m', 'f' + i), 'x'.repeat(i));
fs.appendFileSync('small.txt', 'node'); fs.copyFileSync('large.bin', 'n/large'); fs.cpSync('src', 'n/src', {recursive: true});
fs.renameSync('n/m', 'n/o'); fs.rmSync('n/src', {recursive: true}); fs.symlinkSync('o', 'n/l'); fs.truncateSync('n/large', 10);
const fd = fs.openSync('n/l/f1', 'r+'); fs.writeSync(fd, 'yy', 0); fs.ftruncateSync(fd, 1); fs.futimesSync(fd, 1, 1); fs.fchmodSync(fd, 0o600); fs.closeSync(fd);
END
		node x.js; test -L n/l`},
	{name: "python3", debian: "python3", script: `/usr/bin/python3 - <<'END'
import os, shutil, tempfile, mmap, fcntl, subprocess
shutil.copytree('src', 'py/src'); shutil.move('py/src', 'py/moved')
with tempfile.NamedTemporaryFile('w', dir='py', delete=False) as f: f.write('x' * 5000)
os.replace(f.name, 'small.txt')
with open('large.bin', 'r+b') as f:
    fcntl.lockf(f, fcntl.LOCK_EX); m = mmap.mmap(f.fileno(), 0); m[10:15] = b'abcde'; m.flush(); f.seek(0, 2); f.write(b'end')
with tempfile.TemporaryFile(dir='py') as f: f.write(b'gone'); f.seek(0); assert f.read() == b'gone'
ps = [subprocess.Popen(['sh', '-c', 'echo $0 >py/$0', str(i)]) for i in range(20)]
for i in range(300): os.mkdir('py/d%d' % i); os.rmdir('py/d%d' % i)
for p in ps: assert p.wait() == 0
for i in range(50): # opened by a child that shares our memory and holds us up (vfork)
    pid = os.posix_spawn('/bin/echo', ['echo', str(i)], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 1, 'py/spawned', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)])
    assert os.waitpid(pid, 0)[1] == 0 and open('py/spawned').read() == '%d\n' % i
shutil.rmtree('py/moved'); os.chmod('py', 0o700)
END`},
	{name: "npm", debian: "npm", script: `export npm_config_cache=$PWD/cache npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
		mkdir p q; cd p; npm init -y >/dev/null; echo 'module.exports = 42' >index.js; npm pack --silent
		cd ../q; npm init -y >/dev/null; npm install --silent --offline ../p/p-1.0.0.tgz; node -e 'process.exit(require("p") - 42)'; rm -rf node_modules; npm ci --silent --offline`},
	{name: "strace", debian: "strace", flags: []string{"--debug"}, script: `strace -f -o trace sh -c 'echo traced >>small.txt; mkdir s; mv s t; rm -r t; cp large.bin u; touch -d @1 u'
		grep -q 'O_APPEND.* = [0-9]' trace; grep -q 'mkdir("s", 0777) *= 0' trace; grep -q 'exited with 0' trace; tail -n 1 small.txt | grep traced`},
	{name: "gdb", debian: "gdb", flags: []string{"--debug"}, script: `gdb -nx -batch -ex 'catch syscall write' -ex run -ex continue -ex continue --args /bin/sh -c 'echo debugged >>small.txt' >log 2>&1
		grep -q 'exited normally' log; tail -n 1 small.txt | grep debugged`},
}

// TestPrograms runs what people run over each bridge, and undoes and redoes it.
func TestPrograms(t *testing.T) {
	for name, b := range bridges {
		t.Run(name, func(t *testing.T) {
			s := drive.New(t, fixture.Small)
			for _, p := range programs {
				t.Run(p.name, func(t *testing.T) {
					require.Program(t, p.name, p.debian)
					before := s.Snapshot(t)
					s.Must(t, slices.Concat([]string{"run"}, b.flags, p.flags, []string{"--", "sh", "-ec", p.script})...)
					after := s.Snapshot(t)
					s.Must(t, "undo")
					treesnap.AssertEqual(t, before, s.Snapshot(t), treesnap.Options{IgnoreLinks: true})
					s.Must(t, "redo")
					treesnap.AssertEqual(t, after, s.Snapshot(t), treesnap.Options{IgnoreLinks: true})
					s.Must(t, "undo")
				})
			}
			s.CheckResidue(t)
		})
	}
}
