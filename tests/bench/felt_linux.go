package main

import "fmt"

// feltWork is a workload with what it may cost behind the mediated bridge.
type feltWork struct {
	workload
	goal float64 // mediated / native
	// each is how often it does the one thing that it is about, where that has a goal
	// of its own: microseconds for each, beyond native.
	each     int
	eachGoal float64
}

func plainWork(list []feltWork) []workload {
	var out []workload
	for _, w := range list {
		out = append(out, w.workload)
	}
	return out
}

// The states that a workload starts from; each makes what is not there.
const (
	repository = "[ -d .git ] || { git init -q; git add src; git commit -q -m x; }; "
	unpacked   = "[ -d new ] || { mkdir new; tar -C new -xf $SCRATCH/src.tar; }; "
	// oldFile is read, too, so that its pages are there on every side. A kernel may have dropped them since the last round (some
	// machines page out what is not used for a while). Whoever writes whole pages does not need them, and whoever keeps them does.
	oldFile  = "[ -f old ] || dd if=/dev/urandom of=old bs=1M count=256 2>/dev/null; cat old >/dev/null"
	oldBytes = 256 << 20
)

// workloads are in the order in which they are run. What needs a program that is not
// here is left out.
func (p *project) workloads() []feltWork {
	list := append(readingWork(), treeWork()...)
	list = append(list, fileWork()...)
	return append(list, p.programWork()...)
}

// readingWork does not change anything, but for the small commands: every fourth
// writes its output to a file.
func readingWork() []feltWork {
	find, stat := "find src >/dev/null", `find src -printf '%s %m %T@\n' >/dev/null`
	cat, grep := "find src -type f -print0 | xargs -0 cat >/dev/null", "grep -r ErrUnexpectedEOF src >/dev/null"
	status := "git status >/dev/null"
	small := "for i in $(seq 50); do ls -l src/fmt >listing; grep -c func src/fmt/print.go >/dev/null; " +
		"head -n 5 src/fmt/scan.go >/dev/null; sed -n 5,9p src/fmt/doc.go >/dev/null; done"
	return []feltWork{
		{workload: workload{name: "find", before: twice(find), script: find, times: 20}, goal: 1.1},
		{workload: workload{name: "find+stat", before: twice(stat), script: stat, times: 20}, goal: 1.1},
		{workload: workload{name: "find+cat", before: twice(cat), script: cat, times: 3}, goal: 1.1},
		{workload: workload{name: "grep -r", before: twice(grep), script: grep, times: 3}, goal: 1.1},
		{workload: workload{name: "git status", before: repository + twice(status), script: status, times: 20}, goal: 1.1},
		{workload: workload{name: "200 small commands", before: small, script: small}, goal: 1.15},
	}
}

// treeWork changes many files.
func treeWork() []feltWork {
	return []feltWork{
		{workload: workload{name: "git add, commit", writes: true,
			before: "rm -rf .git; git init -q", script: "git add src && git commit -q -m x"}, goal: 1.6},
		{workload: workload{name: "git checkout of all files", writes: true,
			before: repository + "rm -rf src", script: "git checkout -q -- src"}, goal: 1.3},
		{workload: workload{name: "sed -i, 600 files", writes: true,
			before: "find src/net src/crypto src/cmd/go src/cmd/compile -name '*.go' | sort | head -n 600 >list",
			script: "xargs sed -i s/func/func/ <list"}, goal: 1.8},
		{workload: workload{name: "untar", writes: true,
			before: "rm -rf new; mkdir new", script: "tar -C new -xf $SCRATCH/src.tar"}, goal: 2.2},
		{workload: workload{name: "cp -a", writes: true, before: "rm -rf copy", script: "cp -a src copy"}, goal: 2.2},
		{workload: workload{name: "rm -rf", writes: true, before: "rm -rf copy; " + unpacked, script: "rm -rf new"}, goal: 1.5},
	}
}

// fileWork changes one file, often.
func fileWork() []feltWork {
	load := func(what, file string, count int) string {
		return fmt.Sprintf("$SCRATCH/fileload %s %s %d", what, file, count)
	}
	const opens = 10_000
	return []feltWork{
		{workload: workload{name: "200,000 appends, one descriptor", writes: true,
			before: "rm -f lines", script: load("append", "lines", 200_000)}, goal: 1.15},
		{workload: workload{name: "10,000 times open, append, close", writes: true,
			before: "rm -f lines", script: load("reopen", "lines", opens)}, goal: 4},
		{workload: workload{name: "10,000 times open for writing, close", writes: true,
			before: "rm -f lines", script: load("open", "lines", opens)}, each: opens, eachGoal: 20},
		{workload: workload{name: "100,000 times open for reading, close", before: "rm -f lines; echo >lines",
			script: load("look", "lines", 10*opens)}, each: 10 * opens, eachGoal: 1},
		{workload: workload{name: "10,000 times connect to an own socket", writes: true,
			before: "rm -f socket", script: load("connect", "socket", opens)}, each: opens, eachGoal: 20},
		{workload: workload{name: "10,000 times open, append, close, by two at once", writes: true,
			before: "rm -f lines more", script: load("reopen", "lines", opens/2) + " & " + load("reopen", "more", opens/2) + "; wait $!"}},
		{workload: workload{name: "50,000 random 4 KiB writes, new file", writes: true,
			before: "rm -f pages", script: load("scatter", "pages", 50_000) + fmt.Sprint(" ", oldBytes)}, goal: 1.2},
		{workload: workload{name: "256 MiB file, 1,000 places, fsync", writes: true,
			before: oldFile, script: load("scatter-sync", "old", 1000) + fmt.Sprint(" ", oldBytes)}, goal: 4},
	}
}

// programWork runs programs, as far as they are here.
func (p *project) programWork() []feltWork {
	var list []feltWork
	add := func(there bool, w ...feltWork) {
		if there {
			list = append(list, w...)
		}
	}
	add(p.python != "",
		feltWork{workload: workload{name: "SQLite, 2,000 transactions", writes: true,
			before: "rm -f db db-*", script: p.python + " sql/journal.py"}, goal: 1.4},
		feltWork{workload: workload{name: "SQLite, 2,000 transactions, synchronous off", writes: true,
			before: "rm -f db db-*", script: p.python + " sql/off.py"}, goal: 1.4},
		feltWork{workload: workload{name: "SQLite WAL, 2,000 transactions", writes: true,
			before: "rm -f db db-*", script: p.python + " sql/wal.py"}, goal: 1.4},
		feltWork{workload: workload{name: "python compileall", writes: true,
			before: "find py -name __pycache__ -prune -exec rm -rf {} +", script: p.python + " -m compileall -q py"}, goal: 1.25})
	add(p.gcc, feltWork{workload: workload{name: "make", writes: true,
		before: "make -s -C c clean", script: "make -s -C c -j2"}, goal: 1.1})
	add(true, feltWork{workload: workload{name: "go build", writes: true,
		before: "rm -rf gocache", script: "cd go && GOCACHE=$PWD/../gocache go build -o ../gocache/program ."}, goal: 1.1})
	add(p.npm, feltWork{workload: workload{name: "npm ci", writes: true,
		before: "rm -rf js/node_modules", script: "cd js && npm ci --offline --no-audit --no-fund >/dev/null"}, goal: 1.1})
	return list
}
