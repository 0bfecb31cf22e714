package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// project is what every side of the group mediated has in its folder: Go's sources,
// and small trees that programs build from.
type project struct {
	l        *lab
	template string
	python   string
	gcc, npm bool
	leftOut  []string // why workloads are
}

// newProject makes the template, in memory.
func newProject(ctx context.Context, l *lab) (*project, error) {
	p := &project{l: l, template: filepath.Join(l.scratch, "template")}
	tools := filepath.Join(p.template, "lab")
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(tools, "fileload"), "./tests/cmd/fileload")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build, in the module's root: %w: %s", err, out)
	}
	err := errors.Join(os.Link(l.archive, filepath.Join(tools, "src.tar")),
		p.pythonTree(ctx), p.cTree(), p.goTree(), p.npmTree(ctx))
	return p, err
}

// fill makes a folder with everything in it.
func (p *project) fill(ctx context.Context, dir string) error {
	return errors.Join(command(ctx, dir, "tar", "-xf", p.l.archive), command(ctx, "", "cp", "-a", p.template+"/.", dir))
}

// has reports whether a program is here, and notes why a workload is left out.
func (p *project) has(program, workload, hint string) bool {
	_, err := exec.LookPath(program)
	if err != nil {
		p.leftOut = append(p.leftOut, fmt.Sprintf("%s: no %s here: %s", workload, program, hint))
	}
	return err == nil
}

func (p *project) write(name, text string) error {
	name = filepath.Join(p.template, name)
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644))
}

// systemPython is the one that a jail's user finds, too: another may be in somebody's
// home directory.
const systemPython = "/usr/bin/python3"

// sqlScript is a program of 2,000 transactions.
const sqlScript = `import sqlite3
c = sqlite3.connect("db", isolation_level=None)
c.execute("pragma journal_mode=%s")
c.execute("pragma synchronous=%s")
c.execute("create table t(a integer primary key, b text)")
for i in range(2000):
    c.execute("begin")
    c.execute("insert into t(b) values (?)", ("x" * 100,))
    c.execute("commit")
`

// pythonTree copies Python's own library, without what is compiled of it.
func (p *project) pythonTree(ctx context.Context) error {
	if !p.has(systemPython, "python compileall and SQLite", "apt-get install python3") {
		return nil
	}
	out, err := exec.CommandContext(ctx, systemPython, "-c", "import sqlite3, sysconfig; print(sysconfig.get_path('stdlib'))").Output()
	if err != nil {
		return fmt.Errorf("%s: %w", systemPython, err)
	}
	p.python = systemPython
	err = os.MkdirAll(filepath.Join(p.template, "py"), 0o755)
	for name, modes := range map[string][2]string{"journal": {"delete", "full"}, "off": {"delete", "off"}, "wal": {"wal", "normal"}} {
		err = errors.Join(err, p.write("sql/"+name+".py", fmt.Sprintf(sqlScript, modes[0], modes[1])))
	}
	if err != nil {
		return err
	}
	return command(ctx, strings.TrimSpace(string(out)), "sh", "-ec",
		`find . -name '*.py' -print0 | tar --null -T - -c | tar -C "$1" -x`, "sh", filepath.Join(p.template, "py"))
}

// cTree makes 100 C files and their Makefile.
func (p *project) cTree() error {
	p.gcc = p.has("gcc", "make", "apt-get install gcc make") && p.has("make", "make", "apt-get install make")
	if !p.gcc {
		return nil
	}
	err := p.write("c/Makefile", "OBJECTS = $(patsubst %.c,%.o,$(wildcard *.c))\n"+
		"program: $(OBJECTS)\n\tgcc -o $@ $(OBJECTS)\n%.o: %.c\n\tgcc -O1 -c -o $@ $<\nclean:\n\trm -f *.o program\n")
	err = errors.Join(err, p.write("c/main.c", "int f_1_1(int);\nint main(void) { return f_1_1(-1); }\n"))
	for file := range 100 {
		var text strings.Builder
		text.WriteString("#include <stdio.h>\n#include <string.h>\n")
		for f := range 20 {
			fmt.Fprintf(&text, "int f_%d_%d(int n) { char b[64]; int s = 0; for (int i = 0; i < n; i++) "+
				"{ snprintf(b, sizeof b, \"%%d\", i * %d); s += strlen(b); } return s; }\n", file, f, f+1)
		}
		err = errors.Join(err, p.write(fmt.Sprintf("c/file%d.c", file), text.String()))
	}
	return err
}

// goTree makes a program of 21 packages.
func (p *project) goTree() error {
	err := p.write("go/go.mod", "module example.org/program\n\ngo 1.21\n")
	var imports, calls strings.Builder
	for i := range 20 {
		fmt.Fprintf(&imports, "\t\"example.org/program/p%d\"\n", i)
		fmt.Fprintf(&calls, "\tfmt.Println(p%d.F(%d))\n", i, i)
		err = errors.Join(err, p.write(fmt.Sprintf("go/p%d/p.go", i), fmt.Sprintf("package p%d\n\nimport \"encoding/json\"\n\n"+
			"// F returns n as JSON.\nfunc F(n int) string {\n\tb, _ := json.Marshal(map[string]int{\"n\": n})\n\treturn string(b)\n}\n", i)))
	}
	return errors.Join(err, p.write("go/main.go",
		"package main\n\nimport (\n\t\"fmt\"\n\n"+imports.String()+")\n\nfunc main() {\n"+calls.String()+"}\n"))
}

// npmTree makes 60 packages of 40 files as archives, which a package of ours needs:
// an installation without a registry.
func (p *project) npmTree(ctx context.Context) error {
	if p.npm = p.has("npm", "npm ci", "apt-get install npm"); !p.npm {
		return nil
	}
	pack := filepath.Join(p.l.scratch, "npm-package")
	archives := filepath.Join(p.template, "js", "archives")
	err := errors.Join(os.MkdirAll(filepath.Join(pack, "package"), 0o755), os.MkdirAll(archives, 0o755))
	for i := range 40 {
		text := strings.Repeat(fmt.Sprintf("exports.f%d = function (n) { return n + %d; };\n", i, i), 40)
		err = errors.Join(err, os.WriteFile(filepath.Join(pack, "package", fmt.Sprintf("f%d.js", i)), []byte(text), 0o644))
	}
	var needs []string
	for i := range 60 {
		name := fmt.Sprintf("p%d", i)
		err = errors.Join(err, os.WriteFile(filepath.Join(pack, "package", "package.json"),
			fmt.Appendf(nil, `{"name": %q, "version": "1.0.0", "main": "f0.js"}`, name), 0o644))
		if err == nil {
			err = command(ctx, pack, "tar", "-czf", filepath.Join(archives, name+".tgz"), "package")
		}
		needs = append(needs, fmt.Sprintf("%q: \"file:archives/%s.tgz\"", name, name))
	}
	err = errors.Join(err, p.write("js/package.json",
		`{"name": "project", "version": "1.0.0", "dependencies": {`+strings.Join(needs, ", ")+"}}\n"))
	if err != nil {
		return err
	}
	return command(ctx, filepath.Join(p.template, "js"), "env", "npm_config_cache="+filepath.Join(p.l.scratch, "npm"),
		"npm", "install", "--package-lock-only", "--offline", "--no-audit", "--no-fund")
}
