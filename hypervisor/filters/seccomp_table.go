package filters

import "strings"

// Verdict is what the filters do with a family of system calls.
type Verdict string

// The verdicts. A call that no family names is [Unknown].
const (
	// Allowed calls are performed.
	Allowed Verdict = "allowed"
	// Conditional calls are performed if their arguments, or the session's settings, are those
	// that the family's reason names.
	Conditional Verdict = "conditional"
	// Denied calls fail with EPERM.
	Denied Verdict = "denied"
	// Absent calls fail with ENOSYS, as if the kernel did not have them: programs that try
	// them have another way.
	Absent Verdict = "absent"
	// Unknown is the verdict on calls that are not in the table. They fail with ENOSYS.
	Unknown Verdict = "unknown"
)

// Family is a row of the table: calls of one purpose.
type Family struct {
	Name    string
	Verdict Verdict
	// Why is the reason for the verdict and, of a conditional family, the condition.
	Why string
	// Remedy says what changes the verdict; empty: nothing does.
	Remedy string
	// Calls are names of system calls. Not every architecture has each.
	Calls []string
}

// family makes a row. The names are in one text, for reading.
func family(name string, v Verdict, why, calls string) Family {
	return Family{Name: name, Verdict: v, Why: why, Calls: strings.Fields(calls)}
}

// remedied adds what changes the verdict.
func (f Family) remedied(remedy string) Family {
	f.Remedy = remedy
	return f
}

// containersRemedy is what allows what containers need.
const containersRemedy = "--containers allows it, in user namespaces of the programs' own"

// families has what decides about each call, the refused ones first.
var families = []Family{
	family("modules and other kernels", Denied, "they run code in the host's kernel",
		"init_module finit_module delete_module kexec_load kexec_file_load bpf"),
	family("the whole machine", Denied, "they are the administrator's: reboot, swap, accounting, the kernel's log, quotas, clocks, terminals of others",
		"reboot swapon swapoff acct syslog quotactl quotactl_fd vhangup settimeofday clock_settime lsm_set_self_attr"),
	family("hardware", Denied, "they reach ports and the processor's tables: kernel code that only emulators use",
		"iopl ioperm modify_ldt"),
	family("performance counters", Denied, "they measure other processes and the kernel: side channels, and many defects in the past",
		"perf_event_open"),
	family("page faults in user space", Denied, "they hold up the kernel in the middle of a copy, which attacks on it need",
		"userfaultfd"),
	family("files by handle", Denied, "a handle leads to a file beside the view", "open_by_handle_at"),
	family("io_uring", Denied, "its operations do not pass the filter", "io_uring_setup io_uring_enter io_uring_register"),
	family("keys", Denied, "the user's key rings outlive the session", "keyctl add_key request_key"),
	family("pages of other processes", Denied, "they move memory of other processes between nodes; a single machine's programs do without",
		"migrate_pages move_pages"),

	family("processes with flags in memory", Absent, "a filter cannot read memory; C libraries fall back to clone", "clone3"),
	family("secret memory", Absent, "the mediated bridge has to read names in the caller's memory", "memfd_secret"),
	family("new ways to list mounts", Absent, "programs fall back to /proc/self/mountinfo; namespaces need not be listed", "statmount listmount listns"),
	family("obsolete", Absent, "no program of today calls them; kernels have dropped most",
		"_sysctl sysfs ustat uselib create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg afs_syscall tuxcall security vserver "+
			"epoll_ctl_old epoll_wait_old lookup_dcookie set_thread_area get_thread_area"),

	family("tracing", Conditional, "only with --debug, and only processes inside: a debugger reads and changes other processes",
		"ptrace process_vm_writev process_madvise kcmp").remedied("--debug allows it"),
	family("new namespaces", Conditional, "only with --containers with flags for new namespaces (CLONE_NEW*): in a user namespace of its own a process has capabilities, and so reaches more of the kernel",
		"clone unshare").remedied(containersRemedy),
	family("other namespaces", Conditional, "only with --containers: who joins another namespace leaves the jail's; the kernel lets nobody inside join one that is not below the jail's", "setns").remedied(containersRemedy),
	family("the mount view", Conditional, "only with --containers: the view is what keeps the host's files apart; in a user namespace of its own a process can mount, but what the jail has mounted stays locked",
		"mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick open_tree open_tree_attr move_mount mount_setattr").remedied(containersRemedy),
	family("names of the machine", Conditional, "only with --containers, and there in a namespace of the process's own", "sethostname setdomainname").remedied(containersRemedy),
	family("requests to devices", Conditional, "only those of a list (docs/security.md): to terminals, sockets and descriptors, and those that ask a file system or a disk; others fail as if the file did not know them, but for those of drivers of which --device names a device. Devices and file systems have "+
		"thousands, and some change or lock the user's files through any descriptor", "ioctl"),
	family("sockets", Conditional, "not AF_VSOCK, which leads to a virtual machine's host; with --isolation landlock, only netlink and pairs of streams; with --network pod, of IP only TCP, UDP and pings, of others netlink and, in the jail, unix sockets", "socket socketpair"),
	family("connections to others", Conditional, "the network's policy decides where they lead; with --network pod the supervisor makes them, and sends datagrams where there are rules about them, none begins with data (MSG_FASTOPEN), "+
		"and nobody sets a route (IP_OPTIONS, IPV6_RTHDR)", "connect sendto sendmsg sendmmsg setsockopt"),
	family("personality", Conditional, "only to ask (0xffffffff), the ordinary one (0), and that without random addresses (ADDR_NO_RANDOMIZE), which debuggers and sanitizers take: others change what is executable, "+
		"or imitate other systems with kernel code that nobody else uses", "personality"),
	family("leases and descriptors' flags", Conditional, "with the mediated bridge, not F_SETLEASE: a lease would hold up who opens the file outside", "fcntl"),
	family("a process's own Landlock rules", Conditional, "not with the mediated bridge, nor with --isolation landlock: the supervisor changes files in the caller's name, where they would not hold; "+
		"it fails with EOPNOTSUPP, as where Landlock is switched off", "landlock_create_ruleset").
		remedied("--bridge fuse allows it"),
	family("a process's own filters", Conditional, "not with a listener (SECCOMP_FILTER_FLAG_NEW_LISTENER) beside the mediated bridge, nor with --isolation landlock: the kernel allows one, which is the bridge's; it fails with EBUSY. "+
		"Otherwise a process may restrict itself further; ours comes first", "seccomp").remedied("--bridge fuse allows it"),
	family("attributes of files by structure", Conditional, "not with the mediated bridge, nor with --isolation landlock: they change flags that no undo restores", "file_setattr").
		remedied("--bridge fuse allows it"),
	family("process settings", Conditional, "with --isolation landlock, PR_SET_DUMPABLE does nothing: the supervisor has to be able to read the caller's memory", "prctl"),
	family("limits of processes", Conditional, "not those of process 1; with --isolation landlock, only the caller's own", "prlimit64"),
	family("priorities of processes", Conditional, "not that of process 1, which later commands inherit, nor of all processes of a user",
		"sched_setparam sched_setscheduler sched_setaffinity sched_setattr setpriority ioprio_set"),
	family("queues, semaphores and shared memory without a path", Conditional, "not with --isolation landlock, where no namespace keeps them apart",
		"shmget shmat shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink"),
	family("watching file systems", Conditional, "not with --isolation landlock", "fanotify_init"),
	family("changes of files", Conditional, "with the mediated bridge, and --isolation landlock, the supervisor answers them if they would change something, and there is no openat2",
		"open creat openat openat2 truncate mkdir mkdirat mknod mknodat symlink symlinkat link linkat unlink unlinkat rmdir rename renameat renameat2 "+
			"chmod fchmod fchmodat fchmodat2 utime utimes futimesat utimensat "+
			"setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat access faccessat faccessat2 statfs fstatfs bind umask"),

	family("owners of files", Conditional, "as changes of files; with FUSE, if an ordinary user starts the session, whoever gives a file to somebody else gets EPERM, as outside: nobody else has a number inside, and the kernel would say EINVAL", "chown fchown lchown fchownat"),

	family("signals to processes", Conditional, "inside; with the mediated bridge the supervisor answers whether there is a process (signal 0), so that a pid file of the working folder whose process works there, outside, is not taken for stale", "kill"),

	family("reading and writing", Allowed, "on descriptors that the process has",
		"read write close close_range lseek pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 sendfile splice tee vmsplice copy_file_range "+
			"pipe pipe2 dup dup2 dup3 flock fsync fdatasync sync syncfs sync_file_range ftruncate fallocate fadvise64 readahead cachestat "+
			"io_setup io_destroy io_getevents io_submit io_cancel io_pgetevents"),
	family("looking at files", Allowed, "the view decides what there is to look at",
		"stat fstat lstat newfstatat statx readlink readlinkat getdents getdents64 getcwd chdir fchdir getxattr lgetxattr fgetxattr getxattrat "+
			"listxattr llistxattr flistxattr listxattrat file_getattr name_to_handle_at inotify_init inotify_init1 inotify_add_watch inotify_rm_watch fanotify_mark"),
	family("waiting", Allowed, "for descriptors",
		"poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2 signalfd signalfd4"),
	family("memory", Allowed, "the process's own",
		"mmap mprotect munmap brk mremap msync mincore madvise mlock mlock2 munlock mlockall munlockall remap_file_pages memfd_create membarrier "+
			"pkey_mprotect pkey_alloc pkey_free map_shadow_stack mseal mbind set_mempolicy get_mempolicy set_mempolicy_home_node shmdt"),
	family("processes and threads", Allowed, "a namespace of processes, or Landlock, keeps the host's apart",
		"fork vfork execve execveat exit exit_group wait4 waitid tkill tgkill pidfd_open pidfd_send_signal process_mrelease getpid getppid gettid "+
			"setpgid getpgid getpgrp setsid getsid set_tid_address set_robust_list get_robust_list futex futex_waitv futex_wake futex_wait futex_requeue "+
			"rseq rseq_slice_yield restart_syscall arch_prctl uprobe uretprobe"),
	family("memory and descriptors of other processes", Allowed, "read and copied alone, and only where /proc/PID/mem can be read: by the kernel's rule, of the session's own processes, which could pass their descriptors on, but not of process 1", "process_vm_readv pidfd_getfd"),
	family("signals", Allowed, "inside",
		"rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo rt_sigsuspend sigaltstack pause"),
	family("identity", Allowed, "no_new_privs and an empty bounding set leave nothing to gain",
		"getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid setresgid setgroups setfsuid setfsgid capget capset lsm_get_self_attr lsm_list_modules"),
	family("time", Allowed, "clocks are read; to set one needs a capability",
		"time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep alarm getitimer setitimer times adjtimex clock_adjtime "+
			"timer_create timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime timerfd_gettime"),
	family("scheduling and resources", Allowed, "limits can only be lowered",
		"sched_yield sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval "+
			"sched_getaffinity sched_getattr getpriority ioprio_get getrlimit setrlimit getrusage "+
			"getcpu sysinfo uname getrandom"),
	family("connections", Allowed, "the network's policy decides where they lead",
		"accept accept4 recvfrom recvmsg recvmmsg shutdown listen getsockname getpeername getsockopt"),
	family("queues that are open", Allowed, "who opened one may use it", "mq_timedsend mq_timedreceive mq_notify mq_getsetattr"),
	family("a process's own rules", Allowed, "a process may restrict itself further; ours come first", "landlock_add_rule landlock_restrict_self"),
}
