package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// examples are what the help of each command shows, by its words. They are
// separated by ";" and stand here together so that one is written like another.
var examples = map[string]string{
	"run":             "sandbox run -- make install; sandbox run -C ~/src/app --timeout 10m -- npm ci; sandbox run -C app=~/src/app -C ~/src/lib:ro -- make; sandbox run --safeguard-deletes 20 -- ./cleanup.sh",
	"step":            "sandbox step -- make",
	"ui":              "sandbox ui; sandbox ui --port 7777 --no-open",
	"start":           "sandbox start; sandbox start --idle 2h -C ~/src/app",
	"kill":            "sandbox kill; sandbox kill 0f3a2b1c4d5e",
	"service":         "sandbox run --service web -- npm run dev; sandbox service ls; sandbox service output web; sandbox service stop web",
	"service ls":      "sandbox service ls; sandbox service ls --json",
	"service output":  "sandbox service output web; sandbox service output web -n 2000",
	"service stop":    "sandbox service stop web",
	"stop":            "sandbox stop; sandbox stop -C ~/src/app; sandbox stop 0f3a2b1c4d5e",
	"attach":          "sandbox attach; sandbox attach -- bash -l; sandbox attach 0f3a2b1c4d5e -- make test",
	"serve":           "sandbox serve; sandbox serve --protocol mcp -C ~/src/app; sandbox serve --ui; sandbox serve --protocol mcp --listen 127.0.0.1:8080 --metrics 127.0.0.1:9090; sandbox serve -C ~/src/app --mcp-socket /run/user/1000/app.mcp; sandbox serve --protocol e2b --listen 127.0.0.1:3000",
	"gateway":         "sandbox gateway --listen 0.0.0.0:8443 --keys keys --secret secret --tls-cert cert.pem --tls-key key.pem --domain sandboxes.example.org",
	"history":         "sandbox history; sandbox history --graph; sandbox history --json",
	"history new":     "sandbox history new",
	"mark":            "sandbox mark before; sandbox undo --to before; sandbox mark; sandbox mark --delete before",
	"show":            "sandbox show; sandbox show 3; sandbox show 3 --output",
	"diff":            "sandbox diff; sandbox diff 3",
	"undo":            "sandbox undo; sandbox undo 3 --dry-run; sandbox undo --force; sandbox undo --group; sandbox undo --to before; sandbox undo --abort",
	"redo":            "sandbox redo; sandbox redo 2; sandbox redo --group",
	"cat":             "sandbox cat README.md --step 3; sandbox cat logo.png --step 3 --after >new.png",
	"restore":         "sandbox restore README.md --step 3; sandbox restore src --step 3 --dry-run",
	"approve":         "sandbox pending; sandbox approve sg_001; sandbox approve sg_002 --scope project",
	"approvals":       "sandbox approvals; sandbox approvals -C ~/src/app",
	"answers":         "sandbox answers",
	"answers rm":      "sandbox answers rm r-09af47b2c8; sandbox answers rm --all",
	"audit":           "sandbox audit; sandbox audit --since 2h --json; sandbox audit --verify",
	"why":             "sandbox why --path ~/.ssh/config; sandbox why --path /usr/lib --op write; sandbox why --host example.com:443 --network allowlist; sandbox why --syscall io_uring_setup; sandbox why --agent ssh --use ssh:SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU:sign:git",
	"deny":            "sandbox pending; sandbox deny sg_001",
	"pending":         "sandbox pending",
	"status":          "sandbox status; sandbox status -C ~/src/app -C ~/src/lib",
	"gc":              "sandbox gc; sandbox gc --compress-all",
	"inspect":         "sandbox inspect; sandbox inspect --watch; sandbox inspect --json",
	"ps":              "sandbox ps; sandbox ps --json; sandbox ps 0f3a2b1c4d5e",
	"config":          "sandbox config show --origin; sandbox config check codeagent.toml --level project",
	"config show":     "sandbox config show; sandbox config show --origin",
	"config check":    "sandbox config check ~/.config/codeagent/codeagent.toml; sandbox config check codeagent.toml --level project",
	"config path":     "sandbox config path",
	"config text":     "sandbox config text; sandbox config text --level project",
	"config write":    "sandbox config write new.toml --print; sandbox config write new.toml --level project",
	"profile":         "sandbox profile ls; sandbox run --profile codex -- codex",
	"profile ls":      "sandbox profile ls; sandbox profile ls --json",
	"profile show":    "sandbox profile show codex",
	"profile new":     "sandbox profile new mine --from codex",
	"install":         "sandbox install --client claude-code --both; sandbox install --client codex --shell -- --keep 10m; sandbox install --list; sandbox install --client cursor --print; sandbox install --client vscode -- --safeguard-deletes 20",
	"uninstall":       "sandbox uninstall --client claude-code --print; sandbox uninstall --client claude-code",
	"hook":            "sandbox hook claude-code <question.json; sandbox hook claude-code -- --keep 10m",
	"mcp":             "sandbox mcp connect /run/user/1000/app.mcp",
	"mcp connect":     "sandbox mcp connect /run/user/1000/app.mcp",
	"guest":           "sandbox guest build; sandbox run --isolation vm -- uname -a",
	"guest ls":        "sandbox guest ls",
	"guest build":     "sandbox guest build; sandbox guest build --rootfs debian --include nodejs,npm",
	"guest fetch":     "sandbox guest fetch sandbox_0.1.0_guest_amd64.tar.zst --sums checksums.txt",
	"guest reset":     "sandbox guest reset",
	"overlay":         "sandbox overlay ls; sandbox overlay diff ~/.cache",
	"overlay ls":      "sandbox overlay ls; sandbox overlay ls --json",
	"overlay diff":    "sandbox overlay diff ~/.cache; sandbox overlay diff --slot 0",
	"overlay apply":   "sandbox overlay apply ~/go/pkg",
	"overlay discard": "sandbox overlay discard ~/.npm; sandbox overlay discard",
	"policy":          "sandbox policy show; sandbox policy add deny read '~/.aws/**'",
	"policy show":     "sandbox policy show; sandbox policy show --scope user --json",
	"policy trust":    "sandbox policy trust; sandbox policy trust --accept 3f2a91c07d5e; sandbox policy trust --restore",
	"policy check":    "sandbox policy check",
	"policy add":      "sandbox policy add deny read '~/.aws/**' --scope user; sandbox policy add allow connect registry.npmjs.org:443 --scope project --for 8h",
	"policy remove":   "sandbox policy remove r-0a1b2c3d4e",
	"policy export":   "sandbox policy export --scope user >policy.json",
	"policy import":   "sandbox policy import policy.json --dry-run; sandbox policy import policy.json --scope project",
	"doctor":          "sandbox doctor; sandbox doctor --json; sandbox doctor --secrets",
	"version":         "sandbox version",
	"manual":          "sandbox manual build/manual --date 2026-11-23",
	"completion":      "source <(sandbox completion bash); sandbox completion fish >~/.config/fish/completions/sandbox.fish",

	"completion bash":       "source <(sandbox completion bash); sandbox completion bash >/etc/bash_completion.d/sandbox",
	"completion zsh":        "source <(sandbox completion zsh)",
	"completion fish":       "sandbox completion fish >~/.config/fish/completions/sandbox.fish",
	"completion powershell": "sandbox completion powershell | Out-String | Invoke-Expression",
}

// takeFiles are the commands whose arguments are files; a shell completes no
// file names for the others.
var takeFiles = []string{"run", "step", "restore", "config check", "config write", "mcp connect", "policy import", "policy add", "manual", "guest fetch"}

// finish completes the commands below parent: their examples, and what a shell
// completes.
func finish(parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		words := strings.TrimPrefix(cmd.CommandPath(), "sandbox ")
		if text := examples[words]; text != "" && cmd.Example == "" {
			cmd.Example = "  " + strings.ReplaceAll(text, "; ", "\n  ")
		}
		if cmd.HasSubCommands() && !cmd.Runnable() {
			cmd.Args, cmd.RunE = checkArgs(cobra.NoArgs), func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
		if cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil && !slices.Contains(takeFiles, words) {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		finish(cmd)
	}
}

// groups are the commands as the program's help lists them. A command that stands in no group is
// listed at the end.
var groups = []struct{ title, commands string }{
	{"Run:", "run start attach service kill stop ps inspect step"},
	{"See what was done, and undo it:", "history show diff cat undo redo restore mark status gc ui"},
	{"Decide what may be done:", "pending approve deny approvals answers policy audit why"},
	{"Agents and other programs:", "install uninstall profile serve gateway mcp hook"},
	{"This machine:", "doctor config overlay guest completion version help"},
}

// group puts the program's commands into their groups.
func group(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range root.Commands() {
			if slices.Contains(strings.Fields(g.commands), cmd.Name()) {
				cmd.GroupID = g.title
			}
		}
	}
}
