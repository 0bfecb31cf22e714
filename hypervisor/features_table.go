package hypervisor

import "slices"

// Why a setup has not what others have.
const (
	openly     = "nothing is kept from commands there"
	noView     = "there is no view that the sandbox makes"
	noFilter   = "there is no filter for system calls"
	oneListen  = "the kernel allows one listener, which is the mediated bridge's"
	noPlaces   = "only the jail has places of the host; behind Landlock only the folders and $TMPDIR can be changed"
	ownDisk    = "only the jail has places of the host; a machine has a disk of its own"
	hostPlaces = "only the jail has places of the host; here commands write to the host itself"
	ownMetal   = "the machine has devices of its own"
	apart      = "nothing inside reaches a socket outside there"
	unjudged   = "with FUSE nobody answers connections, and commands would reach the sandbox's own services"
	ownCard    = "a machine has a network card of its own"
	hostNet    = "it leaves commands the host's network"
	noNet      = "behind Landlock there is no network but a pod's (--network pod)"
	limited    = "only the jail has limits"
	metadata   = "the mediated bridge shows a folder's own metadata"
	uncounted  = "with the mediated bridge programs write by themselves, and limits.folders counts each write"
	unasked    = "the mediated bridge lets programs read the folder itself"
	noMachine  = "there is no machine"
	only64     = "the mediated bridge's listener knows system calls of 64 bits alone"
	unbound    = "nobody answers there when a program binds a port"
	ifNamed    = "ports that --publish names"
	ifItCan    = "if the guest's kernel runs them"
	ownKernel  = "the guest's kernel is its own"
)

// Answers that need no reason, and how others are made.
func yes() Answer                           { return Answer{Has: true} }
func provided(text string) Answer           { return Answer{Has: true, Text: text} }
func no(why string) Answer                  { return Answer{Text: why} }
func laxer(why string) Answer               { return Answer{Text: why, Laxer: true} }
func by(flag, key string) []Wish            { return []Wish{{Flag: flag, Key: key}} }
func value(f, k string, v ...string) []Wish { return []Wish{{Flag: f, Key: k, Values: v}} }

// on are the answers where the bridge decides nothing.
func on(jail, landlock, vm, none Answer) [setups]Answer {
	return [setups]Answer{jail, jail, landlock, vm, vm, none}
}

// jailed are the answers of what only a jail has.
func jailed(landlock, vm, none string) [setups]Answer {
	return on(yes(), no(landlock), no(vm), no(none))
}

// served are the answers of what only a bridge has that is asked for each access.
func served(why string) [setups]Answer {
	return [setups]Answer{laxer(why), yes(), laxer(why), yes(), yes(), yes()}
}

// Features are all features, with the answer of each setup. It is data alone: whoever asks may change what it gets.
func Features() []Feature {
	return slices.Concat(bridgeFeatures(), viewFeatures(), placeFeatures(), networkFeatures(), limitFeatures(), machineFeatures(), insideFeatures())
}

func bridgeFeatures() []Feature {
	return []Feature{
		{
			Name: "mediated", What: "the folder is a read-only mount of itself, and what would change it is answered outside: native speed", Wishes: value("bridge", "bridge.kind", "mediated"),
			On: [setups]Answer{yes(), no("one folder has one bridge"), yes(), no("a machine has a kernel of its own"), no("a machine has a kernel of its own"), no("commands see no view in which the folder could be read-only")},
		},
		{
			Name: "fuse", What: "each access to the folder is answered outside", Wishes: value("bridge", "bridge.kind", "fuse"),
			On: [setups]Answer{no("one folder has one bridge"), yes(), no("behind Landlock nobody can mount a bridge"), provided("by virtio-fs"), provided("by 9P"), yes()},
		},
		{
			Name: "virtiofs", What: "a machine's folders by virtio-fs", Wishes: value("fs-backend", "vm.fs_backend", "virtiofs"), Tuning: true,
			On: [setups]Answer{no(noMachine), no(noMachine), no(noMachine), yes(), no("one machine has one bridge"), no(noMachine)},
		},
		{
			Name: "9p", What: "a machine's folders by 9P, which is slower", Wishes: value("fs-backend", "vm.fs_backend", "9p"), Tuning: true,
			On: [setups]Answer{no(noMachine), no(noMachine), no(noMachine), no("one machine has one bridge"), provided("with the kernel of 'sandbox guest build --generic'"), no(noMachine)},
		},
		{
			Name: "containers", What: "commands make namespaces of their own (podman, buildah)", Wishes: by("containers", "jail.containers"),
			On: [setups]Answer{
				no("Landlock, which the mediated bridge needs, denies every mount"), yes(), no("Landlock denies every mount"),
				no("commands of a machine have no such rights"), no("commands of a machine have no such rights"), no("nothing keeps commands from what their user may do"),
			},
		},
		{Name: "no cache", What: "every access to the folder goes to the bridge, so that nothing is cached inside", Wishes: value("cache", "bridge.cache", "none"), On: [setups]Answer{no(unasked), yes(), no(unasked), yes(), yes(), yes()}},
		{Name: "posix metadata", What: "modes, owners and symlinks are kept beside the log, and names that Windows does not take are refused", Wishes: by("posix-metadata", "bridge.posix_metadata"), On: served(metadata)},
		{Name: "folder limit", What: "the folders together cannot become larger than that", Wishes: by("limit-folders", "limits.folders"), On: served(uncounted)},
		{
			Name: "lock", What: "nobody else can write to the folder by its path (root only)", Wishes: value("barriers", "undo.barriers", "lock"), Late: true,
			On: on(yes(), no("commands see the folder where everybody else sees it, so that it would be read-only for them, too"), yes(), yes()),
		},
	}
}

func viewFeatures() []Feature {
	return []Feature{
		{
			Name: "hide", What: "a path of the host is hidden", Wishes: by("hide", "jail.hide"),
			On: on(yes(), provided("its content; its name, size and times can be seen, and nothing in a working folder can be hidden"), provided("in the working folders; nothing else of the host is there"), no("nothing is hidden from commands there")),
		},
		{
			Name: "show", What: "a known secret can be read all the same", Wishes: by("show", "jail.show"),
			On: on(yes(), yes(), provided("in the working folders"), provided("all can be read anyway")),
		},
		{Name: "dynamic", What: "the first look at what programs do not need is held until a person allows it", Wishes: value("mode", "jail.mode", "dynamic"), On: on(yes(), laxer("behind Landlock nothing can be decided later"), laxer("of the host a machine has the folders alone"), laxer(openly))},
		{Name: "gate", What: "the first look at each name in a directory is held until a person allows it", Wishes: by("gate", "jail.gate"), On: on(yes(), laxer("behind Landlock nothing can be decided later"), laxer("of the host a machine has the folders alone"), laxer(openly))},
		{Name: "debug", What: "commands may trace each other (strace, gdb)", Wishes: by("debug", "jail.debug"), On: on(yes(), yes(), provided("always: "+ownKernel), provided("always: "+openly))},
		{
			Name: "32-bit programs", What: "programs for processors of 32 bits (i386) run", Wishes: by("32bit", "jail.run_32bit"),
			On: [setups]Answer{no(only64), yes(), no(only64), provided(ifItCan), provided(ifItCan), provided("always: " + openly)},
		},
		{Name: "agent", What: "commands ask an agent outside for the use of its keys, each of which can be held", Wishes: append(by("agent", "jail.agents"), by("allow-use", "jail.allow_use")...), On: jailed(apart, apart, "commands reach the agent itself, and nobody is asked")},
		{Name: "device", What: "commands use a device of the host", Wishes: by("device", "jail.devices"), On: jailed("behind Landlock there are only harmless devices", ownMetal, "commands use what devices their user may")},
		{Name: "no execution", What: "a policy's rules about executing hold", On: jailed("only the jail's view sees to them", "only the jail's view sees to them", "only the jail's view sees to them")},
		{Name: "explained view", What: "'sandbox why --path' explains what commands can do with a path", On: jailed(noView, noView, noView)},
		{Name: "filter", What: "a filter of system calls, which 'sandbox why --syscall' explains", On: on(yes(), yes(), no(noFilter+": "+ownKernel), no(noFilter))},
		{Name: "own listeners", What: "a program inside listens to a system call filter of its own", On: [setups]Answer{no(oneListen), yes(), no(oneListen), provided(ownKernel), provided(ownKernel), yes()}},
	}
}

func placeFeatures() []Feature {
	return []Feature{
		{Name: "cache overlays", What: "caches of compilers and package managers can be written; the host's stay as they are", Wishes: value("caches", "places.caches", "overlay"), On: jailed(noPlaces, ownDisk, hostPlaces)},
		{Name: "read-only caches", What: "the host's caches cannot be written", Wishes: value("caches", "places.caches", "read-only"), On: on(yes(), yes(), provided("there are none of the host's"), no(hostPlaces))},
		{Name: "home overlay", What: "the home directory can be written; the host's stays as it is", Wishes: value("home", "places.home", "overlay"), On: jailed(noPlaces, ownDisk, hostPlaces)},
		{Name: "read-only home", What: "the home directory cannot be written", Wishes: value("home", "places.home", "read-only"), On: on(yes(), yes(), provided("the host's is not there"), no(hostPlaces))},
		{Name: "overlays", What: "a directory of the host is treated as a cache", Wishes: by("overlay", "places.overlay"), On: jailed(noPlaces, ownDisk, hostPlaces)},
		{Name: "writable places", What: "a path of the host, beside the folders, is written itself", Wishes: by("rw", "places.rw"), On: jailed(noPlaces, ownDisk, hostPlaces)},
	}
}

func networkFeatures() []Feature {
	return []Feature{
		{Name: "no network", What: "commands reach no network", Wishes: value("network", "network.policy", "disabled"), On: on(yes(), yes(), yes(), laxer(hostNet))},
		{Name: "network policy", What: "rules, or a person, decide what commands reach", Wishes: value("network", "network.policy", "allowlist", "ask"), On: on(yes(), no(noNet), yes(), laxer(hostNet))},
		{Name: "open network", What: "commands reach everything but the host's own services", Wishes: value("network", "network.policy", "open"), On: on(yes(), no(noNet), yes(), provided("the host's own services too"))},
		{
			Name: "pod network", What: "commands reach what the network namespace of the program reaches, but its own services", Wishes: value("network", "network.policy", "pod"),
			On: [setups]Answer{yes(), no(unjudged), yes(), no(ownCard), no(ownCard), provided("the host's own services too")},
		},
		{
			Name: "pod network policy", What: "of what the network namespace of the program reaches, rules or a person decide", Wishes: value("network", "network.policy", "pod-ask"),
			On: [setups]Answer{yes(), no(unjudged), provided("where a container's filter of system calls lets descriptors be copied (pidfd_getfd)"), no(ownCard), no(ownCard), laxer(hostNet)},
		},
		{Name: "allowed hosts", What: "hosts that a network policy allows unasked", Wishes: by("allow-host", "network.allow"), Tuning: true, Of: "network.policy", On: on(yes(), provided("addresses, with --network pod"), yes(), laxer(hostNet))},
		{Name: "denied hosts", What: "hosts that nobody allows", Wishes: by("deny-host", "network.deny"), On: on(yes(), provided("there is no network but a pod's"), yes(), laxer(hostNet))},
		{Name: "published ports", What: "the host connects to ports of commands", Wishes: by("publish", "network.publish"), On: on(yes(), no("no port can be published: "+noNet), yes(), no("no port can be published: "+hostNet))},
		{
			Name: "listening window", What: "commands listen in a window of ports that no other session has, and are refused others", Wishes: value("network-strategy", "network.strategy", "fail"),
			On: [setups]Answer{yes(), laxer(unbound), provided("with --network pod; else there are no sockets"), laxer(unbound), laxer(unbound), laxer(openly)},
		},
		{
			Name: "rewired ports", What: "what commands listen at is reached where no other session's servers are", Wishes: value("network-strategy", "network.strategy", "rewire-device", "rewire-port"),
			On: [setups]Answer{yes(), provided(ifNamed), provided("with --network pod; else there are no sockets"), provided(ifNamed), provided(ifNamed), no(hostNet)},
		},
		{
			Name: "window settings", What: "which window of ports, or loopback address, that is", Of: "network.strategy",
			Wishes: slices.Concat(by("listening-base-port", "network.listening_base_port"), by("listening-port-count", "network.listening_port_count"), by("listening-loopback", "network.listening_loopback")),
			On:     on(yes(), yes(), yes(), no(hostNet)),
		},
		{Name: "injected headers", What: "a header with a secret is added outside", Wishes: by("inject", "network.inject"), On: on(yes(), no("no header can be added: "+noNet), yes(), no("no header can be added: "+hostNet))},
	}
}

func limitFeatures() (out []Feature) {
	for _, l := range []struct{ name, what, flag, key string }{
		{"process limit", "how many processes and threads there can be", "limit-pids", "limits.pids"},
		{"memory limit", "how much memory all of them have", "limit-memory", "limits.memory"},
		{"memory brake", "the memory above which they are slowed down", "limit-memory-high", "limits.memory_high"},
		{"processor limit", "how much of the processors they have", "limit-cpus", "limits.cpus"},
		{"disk limit", "how much they read and write a second", "limit-io", "limits.io"},
		{"file limit", "how large a file can become", "limit-file", "limits.file"},
		{"memory file limit", "how much /tmp and the like hold", "limit-tmp", "limits.tmp"},
	} {
		out = append(out, Feature{
			Name: l.name, What: l.what, Wishes: by(l.flag, l.key),
			On: jailed(limited, limited+"; a virtual machine has --memory and --cpus", limited),
		})
	}
	return out
}

func machineFeatures() []Feature {
	settings := []Wish{
		{Flag: "memory", Key: "vm.memory"}, {Flag: "cpus", Key: "vm.cpus"}, {Key: "vm.acceleration"}, {Key: "vm.boot_timeout"}, {Key: "vm.qemu"},
		{Flag: "kernel-path", Key: "vm.kernel"}, {Flag: "initrd-path", Key: "vm.initrd"}, {Flag: "rootfs-path", Key: "vm.rootfs"}, {Key: "vm.disk_size"}, {Key: "vm.seatbelt"},
	}
	return []Feature{
		{Name: "machine", What: "a machine's memory, processors, kernel and disks", Wishes: settings, Tuning: true, On: on(no(noMachine), no(noMachine), yes(), no(noMachine))},
		{
			Name: "ephemeral", What: "what is written outside of the folders is gone with the session", Wishes: value("vm-mode", "vm.mode", "ephemeral"), Tuning: true,
			On: on(provided("but for caches"), yes(), yes(), no("isolation none has no machine that could be thrown away; commands write to the host")),
		},
		{
			Name: "persistent", What: "what is written outside of the folders is there in the next session", Wishes: value("vm-mode", "vm.mode", "persistent"), Tuning: true,
			On: on(no("the jail has no disk of its own; only the working directories last, and /tmp is gone when the session ends"),
				no("there is no disk but this machine's; only the working directories last, and TMPDIR is gone when the session ends"), yes(),
				no("isolation none has no disk of its own; commands write to the host")),
		},
	}
}

func insideFeatures() []Feature {
	const single = "programs inside find no socket for that"
	return []Feature{
		{Name: "steps inside", What: "commands run others as steps of their own ('sandbox step')", On: jailed(single, single, single)},
		{Name: "pause", What: "everything inside can be stopped and continued", On: on(no("only a machine can be stopped as a whole"), no("only a machine can be stopped as a whole"), yes(), no("only a machine can be stopped as a whole"))},
		{Name: "processes", What: "'sandbox ps' and the page list what runs inside", On: on(yes(), yes(), no("a virtual machine lists its processes itself, by the command ps in it"), yes())},
		{Name: "open files", What: "commands that are started or joined get the caller's own open files", On: on(yes(), yes(), no("what a machine reads is copied to it"), yes())},
		{Name: "git directories", What: "the git directory of a worktree or submodule, which lies outside of its folder, is a folder of the session", On: on(yes(), yes(), yes(), no("a command finds the git directory by its real path, past every bridge"))},
		{Name: "profile", What: "an agent's own configuration, hosts and variables", Wishes: by("profile", "profile"), On: on(yes(), no("a profile names hosts and places, and Landlock has neither"), provided("hosts and variables; its configuration is not in the machine"), provided("variables; the rest is there anyway"))},
	}
}
