package config

import (
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/hypervisor/network/window"
	"github.com/codeagent/sandbox/messages"
)

// Rule says what a project's own file may do with a key.
type Rule int

// The rules.
const (
	Never   Rule = iota // not set it
	Tighten             // only make it stricter; lists are added to
	Any                 // set it
)

func (r Rule) String() string { return [...]string{"never", "tighten", "any"}[r] }

// Key is one key of codeagent.toml.
type Key struct {
	// Name is dotted: table and key.
	Name string
	// Doc says in one line what it does: in the help of its flag and in
	// docs/configuration.md. A word in backquotes names the flag's value.
	Doc string
	// Enum lists the values, from the least strict to the strictest; nil if
	// there are others.
	Enum []string
	// Rule is for the project's file.
	Rule Rule
	// Flag sets the key on the command line; empty if there is none.
	Flag string

	was string // an older name, still read
	// in is the field of the key's group, where that is called otherwise than the key.
	in string
	// tighter reports whether "to" is at least as strict as "from", both
	// pointers; for numbers and truth values of a key with the rule Tighten.
	tighter func(from, to any) bool
	// valid looks at a value beyond its type; nil: any will do.
	valid func(c *Config) error
	// unlimited: -1 is a whole number that means no limit.
	unlimited bool
	// paths: the items are paths, which are kept absolute.
	paths bool
	// there: what a flag names has to exist, or it would have no effect.
	there bool
	// twice: an item that a level has twice means more than one that it has once.
	twice bool
	// only is the one level that may set it; 0: all.
	only Level
}

// ofCallers are the keys that are about a caller who joins a session, too: which session, the caller's log, the variables of the command, and
// which flags are refused. All others are about the session, which has them since its start.
var ofCallers = [...]string{"directory", "undo.dir", "log.level", "log.format", "profile", "locked"}

// Keys are all keys, in the order of the documentation.
func Keys() []Key {
	keys := general()
	keys = append(keys, undoKeys()...)
	keys = append(keys, stepKeys()...)
	keys = append(keys, safeguardKeys()...)
	keys = append(keys, insideKeys()...)
	keys = append(keys, limitKeys()...)
	keys = append(keys, machineKeys()...)
	keys = append(keys, networkKeys()...)
	return append(keys, frontendKeys()...)
}

func general() []Key {
	return []Key{
		{
			Name: "isolation", Enum: []string{"none", "landlock", "auto", "jail", "vm"}, Rule: Tighten, Flag: "isolation",
			Doc: "auto, jail, landlock, vm or none; auto is the jail, or where that cannot be had landlock, which needs no rights and is weaker; vm is a virtual machine. none must be asked for: it only keeps what is needed to undo, and isolates nothing",
		},
		{
			Name: "locked", only: Organisation,
			Doc: "keys, or whole tables, that nothing after the organisation's file may change",
		},
		{
			Name: "directory",
			Doc:  "the working folders of run and serve when none is named: [[directory]] sections with path (absolute or ~/...), label, and access (read_write or read_only)",
		},
		{
			Name: "profile", Flag: "profile",
			Doc: "give a coding agent what it needs: its own configuration, its hosts, variables and credentials. The `name` of a profile ('sandbox profile ls'); empty: none",
		},
		{
			Name: "log.level", Enum: []string{"error", "warn", "info", "debug", "trace"}, Rule: Any, Flag: "log-level", was: "log_level",
			Doc: "the least important `level` of the log on stderr: error, warn, info, debug or trace",
		},
		{
			Name: "log.format", Enum: []string{"auto", "json", "text"}, Rule: Any, Flag: "log-format",
			Doc: "`form` of the log on stderr: json, text, or auto (JSON of servers, and where a level was asked for, unless stderr is a terminal; else text)",
		},
	}
}

func undoKeys() []Key {
	return []Key{
		{
			Name: "undo.dir", Flag: "undo-dir",
			Doc: "`directory` with an undo log for each working folder; empty: chosen by the working folder",
		},
		{
			Name: "undo.max_bytes", in: "LogBytes",
			Doc: "a whole log; the oldest steps go first. -1: no limit",
		},
		{
			Name: "undo.max_steps", in: "StepCount",
			Doc: "steps kept",
		},
		{
			Name: "undo.max_step_bytes", in: "StepBytes",
			Doc: "the content of a file for which a step would need more is not kept: the step goes on, and its undo names the file and leaves it as it is",
		},
		{
			Name: "undo.max_age", in: "Age",
			Doc: "steps older than this go. 0s: no limit",
		},
		{
			Name: "undo.max_uncompressed_bytes", in: "AdoptedRaw",
			Doc: "removed files are kept as they are up to this, and compressed beyond",
		},
		{
			Name: "undo.symlinks", Enum: []string{"ignore", "read-write", "read-only"}, Rule: Tighten, Flag: "symlinks",
			Doc: "symlinks in the folder: read-write, read-only (none can be made) or ignore (not kept, not undone)",
		},
		{
			Name: "undo.barriers", Enum: []string{"warn", "barrier", "lock"}, Rule: Tighten, Flag: "barriers",
			Doc: "what an edit from outside does: barrier (blocks an undo) or warn; lock: nobody else can write to the folder by its path (root only)",
		},
		{
			Name: "undo.durability", Enum: []string{"process", "power"}, Rule: Tighten, Flag: "durability",
			Doc: "what the log survives: process (a killed sandbox) or power (a power failure too; slower)",
		},
		{
			Name: "undo.gitignore", Rule: Tighten, Flag: "gitignore", tighter: onlyFalse,
			Doc: "do not keep what .gitignore ignores: it cannot be undone then",
		},
		{
			Name: "undo.keep_output", Rule: Tighten, tighter: onlyFalse,
			Doc: "keep what agents' commands write to stdout and stderr with their steps, for 'sandbox show --output'. It can hold secrets",
		},
	}
}

func stepKeys() []Key {
	return []Key{
		{
			Name: "steps.quiet", in: "QuiescenceIdle", valid: func(c *Config) error { return between(c.Steps.QuiescenceIdle, time.Millisecond, 10*time.Second) },
			Doc: "a step whose last command has ended is closed when nothing was written in the folder for this time, 1ms to 10s. What is written later belongs to an ambient step",
		},
		{
			Name: "steps.quiet_max", in: "QuiescenceMax", valid: func(c *Config) error { return between(c.Steps.QuiescenceMax, time.Millisecond, time.Minute) },
			Doc: "it waits for that no longer than this, 1ms to 1m",
		},
		{
			Name: "steps.ambient_idle", valid: func(c *Config) error { return between(c.Steps.AmbientIdle, 100*time.Millisecond, time.Hour) },
			Doc: "an ambient step is closed when nothing was written in the folder for this time, 100ms to 1h, or when a command's step begins",
		},
		{
			Name: "steps.service_after", valid: func(c *Config) error { return between(c.Steps.ServiceAfter, time.Second, 365*24*time.Hour) },
			Doc: "a command that outlives its connection leaves its step after this time, 1s to 8760h, and goes on as a service. It says nothing of what 'sandbox run' and the commands of MCP and STDIO clients run",
		},
	}
}

func safeguardKeys() []Key {
	return []Key{
		{
			Name: "safeguards.deletes", in: "DeleteThreshold", Rule: Tighten, Flag: "safeguard-deletes", tighter: fewer,
			Doc: "ask when a step deletes its `n`-th file. 0: never",
		},
		{
			Name: "safeguards.overwrite_bytes", Rule: Tighten, Flag: "safeguard-overwrite", tighter: smaller,
			Doc: "ask before an existing file above this `size` is overwritten or truncated. 0: never",
		},
		{
			Name: "safeguards.rename_over", Rule: Tighten, Flag: "safeguard-rename-over", tighter: onlyTrue,
			Doc: "ask before an existing file is replaced by a rename",
		},
		{
			Name: "safeguards.protect", Rule: Tighten, Flag: "safeguard-protect", tighter: onlyTrue,
			Doc: "ask before git's hooks and configuration, shells' start-up files, and editors' and agents' settings in the folder are changed",
		},
		{
			Name: "safeguards.timeout", Rule: Tighten, Flag: "safeguard-timeout", tighter: sooner,
			Doc: "deny after this `time` without a decision. If it is not set, 30 s, and at once where nobody can decide",
		},
		{
			Name: "safeguards.exempt", Flag: "safeguard-exempt",
			Doc: "never ask about paths that match this `glob`",
		},
		{
			Name: "notifications.desktop", Enum: []string{"auto", "off"},
			Doc: "auto tells the desktop, with notify-send (macOS: osascript, Windows: PowerShell), that something waits for a decision, if there are both; off does not",
		},
	}
}

func insideKeys() []Key {
	return []Key{
		{
			Name: "commands.at_once", Rule: Tighten, tighter: noMore, valid: atOnce,
			Doc: "how many commands run at once in a session, 1 to 1000; who comes then waits",
		},
		{
			Name: "jail.hide", Rule: Tighten, Flag: "hide", paths: true, there: true,
			Doc: "make this host `path` invisible inside, beyond the built-in list of secrets (in a file absolute or ~/...)",
		},
		{
			Name: "jail.show", Flag: "show", paths: true,
			Doc: "show this host `path` inside although it is one of the known secrets (in a file absolute or ~/...)",
		},
		{
			Name: "jail.mode", Enum: []string{"static", "dynamic"}, Rule: Tighten, Flag: "mode",
			Doc: "what a jail shows of the host: static (all but known secrets) or dynamic (system, tool chains, the folders and caches; the first look at anything else is held until a person allows it)",
		},
		{
			Name: "jail.gate", in: "Gates", Rule: Tighten, Flag: "gate", paths: true,
			Doc: "hold the first look at each name in this `directory` of the host until a person allows it (in a file absolute or ~/...)",
		},
		{
			Name: "jail.debug", Rule: Tighten, Flag: "debug", tighter: onlyFalse,
			Doc: "allow ptrace inside (strace, gdb)",
		},
		{
			Name: "jail.run_32bit", in: "Programs32bit", Rule: Tighten, Flag: "32bit", tighter: onlyFalse,
			Doc: "let 32-bit programs (i386) run, by the rules for those of 64 bits; the folders are then served over FUSE",
		},
		{
			Name: "jail.containers", Rule: Tighten, Flag: "containers", tighter: onlyFalse,
			Doc: "allow containers inside (podman, buildah): namespaces of the commands' own, which reach more of the kernel",
		},
		{
			Name: "jail.agents", Flag: "agent", valid: knownAgents,
			Doc: "let commands in a jail ask an agent outside for the use of its keys; each use is held until a person or a rule allows it. The `name` of the agent: ssh, gpg",
		},
		{
			Name: "jail.allow_use", Flag: "allow-use",
			Doc: "allow a use of a key without asking, in this session: a `pattern` such as 'ssh:**:sign:git' or 'gpg:**'",
		},
		{
			Name: "jail.devices", Flag: "device", twice: true,
			Doc: "let commands in a jail use this device of the host, or all in this directory: a `path` below /dev, or a name there (kvm, dri, nvidia). One that reaches past the jail, as a disk, has to be named twice",
		},
		{
			Name: "places.caches", Enum: []string{"overlay", "read-only"}, Rule: Tighten, Flag: "caches",
			Doc: "the caches of compilers and package managers in a jail, and where they install programs for a user: overlay (can be written; what is written is kept beside the host's, which stays as it is) or read-only",
		},
		{
			Name: "places.home", Enum: []string{"overlay", "read-only"}, Rule: Tighten, Flag: "home",
			Doc: "the home directory in a jail: overlay (can be written; what is written goes with the session) or read-only",
		},
		{
			Name: "places.overlay", Flag: "overlay", paths: true,
			Doc: "treat this `directory` of the host in a jail as the caches are (in a file absolute or ~/...)",
		},
		{
			Name: "places.rw", in: "Writable", Flag: "rw", paths: true,
			Doc: "let commands in a jail write to this `path` of the host itself; that cannot be undone (in a file absolute or ~/...)",
		},
		{
			Name: "bridge.kind", in: "Bridge", Enum: []string{"mediated", "auto", "fuse"}, Rule: Tighten, Flag: "bridge",
			Doc: "how the jail reaches the folder: mediated (at native speed: only what would change it is answered here), fuse (every access is), or auto (mediated where this kernel can and the folder holds neither mounts nor hidden files, else fuse)",
		},
		{
			Name: "bridge.cache", Enum: []string{"auto", "none"}, Rule: Tighten, Flag: "cache",
			Doc: "caching of the folder inside: auto or none (every access goes to the bridge; slow)",
		},
		{
			Name: "bridge.posix_metadata", Flag: "posix-metadata",
			Doc: "treat the folder as Windows' file systems are: refuse their reserved names, keep modes, owners and symlinks beside the undo log",
		},
	}
}

func frontendKeys() []Key {
	return []Key{
		{
			Name: "serve.listen", Flag: "listen", valid: func(c *Config) error { return listened(c.Serve.Listen) },
			Doc: "the `address` (HOST:PORT) at which serve serves over HTTP: MCP, in the place of stdin and stdout, or E2B's protocol. The STDIO API has none. Empty: MCP is on stdin and stdout, and E2B's protocol on the loopback",
		},
		{
			Name: "serve.metrics", Flag: "metrics", valid: func(c *Config) error { return listened(c.Serve.Metrics) },
			Doc: "the `address` (HOST:PORT) at which serve tells Prometheus figures, path /metrics; one process has it at a time. Empty: nowhere",
		},
		{
			Name: "stdio.timeout",
			Doc:  "ends a command of serve's STDIO API that has no timeout of its own. 0s: never",
		},
		{
			Name: "mcp.socket", Flag: "mcp-socket",
			Doc: "`path` of a unix socket on which serve serves MCP clients too (in a file absolute or ~/...); its token is kept beside it",
		},
		{
			Name: "mcp.timeout", Rule: Tighten, tighter: sooner,
			Doc: "ends an MCP command that has no timeout of its own",
		},
		{
			Name: "agent.command",
			Doc:  "the program, with its arguments, that gets what serve's agent.prompt says; it runs inside",
		},
		{
			Name: "classifier.auto_approve", Enum: []string{"all", "read-only", "none"}, Rule: Tighten, Flag: "auto-approve",
			Doc: "`commands` that serve runs without asking a person first: all, read-only (what seems to change no files) or none",
		},
		{
			Name: "classifier.read_only",
			Doc:  "beginnings of commands that only read, for the advice in MCP results",
		},
		{
			Name: "classifier.write",
			Doc:  "beginnings of commands that write",
		},
		{
			Name: "classifier.destructive", Rule: Tighten,
			Doc: "beginnings of commands that destroy",
		},
		{
			Name: "classifier.max_bytes",
			Doc:  "how much of a command's text is looked at",
		},
	}
}

func limitKeys() []Key {
	return []Key{
		{
			Name: "limits.pids", Rule: Tighten, Flag: "limit-pids", tighter: smallerInt, unlimited: true,
			Doc: "how many processes and threads may run in a jail, a `number`. -1: no limit",
		},
		{
			Name: "limits.memory", Rule: Tighten, Flag: "limit-memory", tighter: smaller,
			Doc: "the memory of everything in a jail, a `size`; if it is used up, the kernel ends a process inside. 0: no limit",
		},
		{
			Name: "limits.memory_high", Rule: Tighten, Flag: "limit-memory-high", tighter: smaller,
			Doc: "the memory, a `size`, above which what is in a jail is slowed down. 0: no limit",
		},
		{
			Name: "limits.cpus", Rule: Tighten, Flag: "limit-cpus", tighter: fewerCPUs,
			Doc:   "the processors of everything in a jail, a `number` as 1.5. 0: no limit",
			valid: func(c *Config) error { _, err := milliCPUs(c.Limits.CPUs); return err },
		},
		{
			Name: "limits.io", Rule: Tighten, Flag: "limit-io", tighter: smaller,
			Doc: "how much a second, a `size`, a jail may read from, and write to, each disk with a working folder. 0: no limit",
		},
		{
			Name: "limits.file", in: "FileBytes", Rule: Tighten, Flag: "limit-file", tighter: smaller,
			Doc: "how large, a `size`, a file may become that is written in a jail. 0: no limit",
		},
		{
			Name: "limits.folders", Rule: Tighten, Flag: "limit-folders", tighter: smaller,
			Doc: "how much larger, a `size`, all working folders together may become while a session lives, also in a virtual machine; a program that would write more gets EDQUOT. The bridge is then FUSE. 0: no limit",
		},
		{
			Name: "limits.tmp", in: "TmpBytes", Rule: Tighten, Flag: "limit-tmp", tighter: smaller,
			Doc: "what each of /tmp, /var/tmp, /run, /dev/shm and the home directory's overlay may hold in a jail, a `size`. 0: half of the machine's memory",
		},
	}
}

func machineKeys() []Key {
	return []Key{
		{
			Name: "vm.memory", in: "MemoryBytes", Flag: "memory",
			Doc: "a virtual machine's memory, a `size`",
		},
		{
			Name: "vm.cpus", Flag: "cpus",
			Doc: "a virtual machine's processors, a `number`. 0: up to 4, and 1 where it is emulated",
		},
		{
			Name: "vm.acceleration", in: "Accel", Enum: hypervisor.AccelerationWords(),
			Doc: "auto (what this system has, where it works), kvm (Linux), hvf (macOS), whpx (Windows), or tcg (emulation)",
		},
		{
			Name: "vm.boot_timeout",
			Doc:  "a machine that takes no commands by then has failed",
		},
		{
			Name: "vm.fs_backend", Enum: []string{"virtiofs", "9p"}, Flag: "fs-backend",
			Doc: "what shows a machine the working folders: virtiofs, or 9p, which is slower and needs 'sandbox guest build --generic'",
		},
		{
			Name: "vm.qemu", in: "Program",
			Doc: "the QEMU to use; empty: the one in PATH",
		},
		{
			Name: "vm.kernel", Flag: "kernel-path",
			Doc: "a kernel of your own, a `file`; empty: what 'sandbox guest build' made",
		},
		{
			Name: "vm.initrd", Flag: "initrd-path",
			Doc: "an initramfs of your own, a `file` with sandbox-guest as /init",
		},
		{
			Name: "vm.rootfs", Flag: "rootfs-path",
			Doc: "a root file system of your own, a `file` (squashfs, erofs, ext4); empty: the one of 'sandbox guest build --rootfs debian', if there is one; none: busybox",
		},
		{
			Name: "vm.mode", Enum: []string{"persistent", "ephemeral"}, Rule: Tighten, Flag: "vm-mode",
			Doc: "what a machine writes outside of the working folders: persistent keeps it on a disk of the folder's, in ephemeral it is gone with the machine",
		},
		{
			Name: "vm.disk_size",
			Doc:  "the size of a persistent machine's disk when it is made; it takes room as it fills",
		},
		{
			Name: "vm.seatbelt", Rule: Tighten, tighter: onlyTrue,
			Doc: "run QEMU, and this program once the machine runs, behind profiles of macOS' Seatbelt: they reach the files and sockets that they need, and nothing else. Only macOS has that; experimental",
		},
	}
}

// ClassifierBytes is how much of a command's text the classifier looks at, where nothing else is set.
const ClassifierBytes = 32 << 10

// Default is what holds when no file and no flag says anything.
func Default() Config {
	log := undolog.DefaultSettings()
	log.Age = 0 // no limit, as the key says it: a time is not negative
	return Config{
		Isolation:     "auto",
		Log:           Log{Level: "warn", Format: "auto"},
		Undo:          Undo{Undo: api.Undo{Settings: log, KeepOutput: true}},
		Steps:         api.Timing{QuiescenceIdle: messages.QuietTime, QuiescenceMax: messages.QuietMax, AmbientIdle: messages.AmbientIdle, ServiceAfter: messages.ServiceAfter},
		Safeguards:    api.Safeguards{Protect: true, Timeout: messages.DecisionTime},
		Jail:          Jail{Mode: "static"},
		Places:        Writable{Caches: "overlay", Home: "overlay"},
		Commands:      Commands{AtOnce: messages.Commands},
		Limits:        Limits{Limits: hypervisor.Limits{PIDs: 4096}},
		Bridge:        api.Serving{Bridge: hypervisor.BridgeAuto, Cache: api.CacheAuto},
		MCP:           MCP{Timeout: Duration(messages.ToolTime)},
		Notifications: struct{ Desktop string }{"auto"},
		Classifier:    Classifier{AutoApprove: "all", MaxBytes: ClassifierBytes},
		Network:       Network{Network: policy.Network{Mode: policy.Disabled, Settings: window.Settings{Strategy: window.Off}}},
		VM:            VM{VM: hypervisor.VM{MemoryBytes: hypervisor.MachineBytes, Accel: "auto", BootTimeout: hypervisor.MachineBoot}, FSBackend: "virtiofs", Mode: "ephemeral", DiskSize: 16 << 30},
	}
}
