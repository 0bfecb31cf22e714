package devtools

import (
	"context"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// dailyProgram is a program of a day's work: what it needs, and where Debian has that; how it is run; and what it prints when it has worked.
type dailyProgram struct{ name, needs, debian, script, want string }

// daily are programs of a day's work. Each runs in the same folder.
var daily = []dailyProgram{
	{"gcc", "gcc", "gcc", "gcc -O1 -g -o hello hello.c && ./hello", "hello, C"},
	{"make", "make", "make", "make -s again", "made"},
	{"go build", "go", "golang", "cd tool && go build -o tool . && ./tool && go vet .", "hello, Go"},
	{"npm test", "npm", "npm", "npm test --offline --silent", "tested"},
	{"python venv", "python3", "python3", "python3 -m venv --without-pip env && env/bin/python -c 'import json, sys; print(\"in\", sys.prefix)'", "/env"},
	{"git", "git", "git", "git init -q . && git add hello.c && git -c user.name=me -c user.email=me@localhost commit -qm first && git log --oneline && git status --short | head -1", "first"},
	{"gdb", "gdb", "gdb", "gcc -g -o hello hello.c && gdb -nx -batch -ex 'break main' -ex run -ex bt -ex continue ./hello", "main ()"},
	{"strace", "strace", "strace", "strace -f -o trace sh -c 'cat hello.c' && grep -c openat trace", "printf"},
	{"vim", "vim", "vim", "vim -N -u NONE -i NONE -n -es -c 'normal inew line' -c 'wq edited'; cat edited", "new line"},
	{"a language server", "node", "nodejs", "node ask.js", "is not assignable to type"},
}

// ask asks the language server of TypeScript where a name is defined and what is wrong, as an editor does.
const ask = `const { spawn } = require("child_process");
const server = spawn(process.execPath, ["node_modules/typescript/lib/tsserver.js", "--disableAutomaticTypingAcquisition"], { stdio: ["pipe", "pipe", "inherit"] });
const file = process.cwd() + "/main.ts";
[{ command: "open", arguments: { file } }, { command: "definition", arguments: { file, line: 2, offset: 13 } }, { command: "semanticDiagnosticsSync", arguments: { file } }]
  .forEach((r, i) => server.stdin.write(JSON.stringify({ seq: i + 1, type: "request", ...r }) + "\n"));
let said = "";
server.stdout.on("data", (b) => {
  said += b;
  if (!said.includes('"request_seq":3')) return;
  console.log(said);
  server.stdin.end();
});
`

// TestDynamicDay: programs of a day's work run in a view that asks, and nobody is asked anything. Where somebody would be, they fail, since nobody answers.
func TestDynamicDay(t *testing.T) {
	t.Parallel()
	for _, bridge := range []string{"mediated", "fuse"} {
		t.Run(bridge, func(t *testing.T) { dynamicDay(t, bridge) })
	}
}

func dynamicDay(t *testing.T, bridge string) {
	s := project(t, map[string]string{
		"hello.c":      "#include <stdio.h>\nint main(void) { printf(\"hello, C\\n\"); return 0; }\n",
		"Makefile":     "again:\n\t@echo made\n",
		"tool/go.mod":  "module example.org/tool\n\ngo 1.21\n",
		"tool/main.go": "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello, Go\") }\n",
		"package.json": `{"name": "app", "private": true, "scripts": {"test": "node -e 'console.log(\"tes\" + \"ted\")'"}}`,
		"ask.js":       ask,
		"main.ts":      "const one: string = 'one'\nconst two = one\nconst three: number = one\n",
	}, "typescript")
	for _, p := range daily {
		t.Run(p.name, func(t *testing.T) { p.run(t, s, bridge) })
	}
}

// run runs it in a view that asks.
func (p dailyProgram) run(t *testing.T, s *drive.Sandbox, bridge string) {
	t.Helper()
	require.Program(t, p.needs, p.debian)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b, err := s.Command(ctx, "run", "--mode", "dynamic", "--bridge", bridge, "--debug", "--safeguard-timeout", "1s", "--safeguard-protect=false", "--env", "GOFLAGS=-buildvcs=false", "--", "sh", "-ec", p.script).CombinedOutput()
	out := string(b)
	if err != nil || !strings.Contains(out, p.want) {
		t.Errorf("%v\n%s", err, out)
	}
	if strings.Contains(out, "sandbox approve") || strings.Contains(out, "nobody answered") {
		t.Errorf("somebody was asked:\n%s", out)
	}
}
