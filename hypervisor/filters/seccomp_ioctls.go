package filters

import "iter"

// Request is one row of the list of requests that ioctl may make. All others fail with ENOTTY, as on a file that does not know them.
type Request struct {
	Number uint32
	Name   string
	Why    string
	// Containers: only where containers are allowed.
	Containers bool
}

// requests are what programs were seen to ask (git, go, gcc, npm, node, python, vim, tmux, gdb, sqlite3, rsync, cp, fish, zsh, less, top, ip, ifconfig, mkfs, podman under strace) and the rest of the same families
// that only reads or concerns what the caller has. The most frequent stand first: a filter tries them in this order.
var requests = []struct {
	why        string
	containers bool
	list       []Request
}{
	{"looks at a terminal and sets it: those that type into it or take the console's output are not among them, nor line disciplines (TIOCSETD), which load modules", false, []Request{
		{Number: 0x5401, Name: "TCGETS"}, {Number: 0x5413, Name: "TIOCGWINSZ"}, {Number: 0x540f, Name: "TIOCGPGRP"}, {Number: 0x5402, Name: "TCSETS"}, {Number: 0x5403, Name: "TCSETSW"},
		{Number: 0x5404, Name: "TCSETSF"}, {Number: 0x5410, Name: "TIOCSPGRP"}, {Number: 0x5414, Name: "TIOCSWINSZ"}, {Number: 0x540e, Name: "TIOCSCTTY"}, {Number: 0x5422, Name: "TIOCNOTTY"},
		{Number: 0x5429, Name: "TIOCGSID"}, {Number: 0x5409, Name: "TCSBRK"}, {Number: 0x5425, Name: "TCSBRKP"}, {Number: 0x540a, Name: "TCXONC"}, {Number: 0x540b, Name: "TCFLSH"},
		{Number: 0x5405, Name: "TCGETA"}, {Number: 0x5406, Name: "TCSETA"}, {Number: 0x5407, Name: "TCSETAW"}, {Number: 0x5408, Name: "TCSETAF"},
		{Number: 0x802c542a, Name: "TCGETS2"}, {Number: 0x402c542b, Name: "TCSETS2"}, {Number: 0x402c542c, Name: "TCSETSW2"}, {Number: 0x402c542d, Name: "TCSETSF2"},
		{Number: 0x540c, Name: "TIOCEXCL"}, {Number: 0x540d, Name: "TIOCNXCL"}, {Number: 0x80045440, Name: "TIOCGEXCL"}, {Number: 0x5411, Name: "TIOCOUTQ"}, {Number: 0x5424, Name: "TIOCGETD"},
		{Number: 0x80045432, Name: "TIOCGDEV"}, {Number: 0x5456, Name: "TIOCGLCKTRMIOS"},
	}},
	{"makes and runs a pseudo-terminal", false, []Request{
		{Number: 0x80045430, Name: "TIOCGPTN"}, {Number: 0x40045431, Name: "TIOCSPTLCK"}, {Number: 0x5441, Name: "TIOCGPTPEER"}, {Number: 0x80045439, Name: "TIOCGPTLCK"},
		{Number: 0x5420, Name: "TIOCPKT"}, {Number: 0x80045438, Name: "TIOCGPKT"}, {Number: 0x40045436, Name: "TIOCSIG"},
	}},
	{"drives a serial line that the caller was given", false, []Request{
		{Number: 0x5415, Name: "TIOCMGET"}, {Number: 0x5416, Name: "TIOCMBIS"}, {Number: 0x5417, Name: "TIOCMBIC"}, {Number: 0x5418, Name: "TIOCMSET"}, {Number: 0x5427, Name: "TIOCSBRK"},
		{Number: 0x5428, Name: "TIOCCBRK"}, {Number: 0x541e, Name: "TIOCGSERIAL"}, {Number: 0x545d, Name: "TIOCGICOUNT"},
	}},
	{"is about the descriptor, or how much can be read from it", false, []Request{
		{Number: 0x541b, Name: "FIONREAD"}, {Number: 0x5421, Name: "FIONBIO"}, {Number: 0x5451, Name: "FIOCLEX"}, {Number: 0x5450, Name: "FIONCLEX"}, {Number: 0x5452, Name: "FIOASYNC"}, {Number: 0x5460, Name: "FIOQSIZE"},
	}},
	{"asks a file system about a file", false, []Request{
		{Number: 0x80086601, Name: "FS_IOC_GETFLAGS"}, {Number: 0x80046601, Name: "FS_IOC32_GETFLAGS"}, {Number: 0x80087601, Name: "FS_IOC_GETVERSION"}, {Number: 0x801c581f, Name: "FS_IOC_FSGETXATTR"},
		{Number: 0xc020660b, Name: "FS_IOC_FIEMAP"}, {Number: 2, Name: "FIGETBSZ"}, {Number: 0x81009431, Name: "FS_IOC_GETFSLABEL"}, {Number: 0x80111500, Name: "FS_IOC_GETFSUUID"},
	}},
	{"shares blocks with a file that was opened for writing: it writes as write does", false, []Request{
		{Number: 0x40049409, Name: "FICLONE"}, {Number: 0x4020940d, Name: "FICLONERANGE"}, {Number: 0xc0189436, Name: "FIDEDUPERANGE"},
	}},
	{"asks a disk for its size and form", false, []Request{
		{Number: 0x80081272, Name: "BLKGETSIZE64"}, {Number: 0x1260, Name: "BLKGETSIZE"}, {Number: 0x1268, Name: "BLKSSZGET"}, {Number: 0x127b, Name: "BLKPBSZGET"}, {Number: 0x125e, Name: "BLKROGET"},
		{Number: 0x1278, Name: "BLKIOMIN"}, {Number: 0x1279, Name: "BLKIOOPT"}, {Number: 0x127a, Name: "BLKALIGNOFF"}, {Number: 0x80081270, Name: "BLKBSZGET"},
	}},
	{"is about a socket of the caller's", false, []Request{
		{Number: 0x8905, Name: "SIOCATMARK"}, {Number: 0x8901, Name: "FIOSETOWN"}, {Number: 0x8902, Name: "SIOCSPGRP"}, {Number: 0x8903, Name: "FIOGETOWN"}, {Number: 0x8904, Name: "SIOCGPGRP"},
		{Number: 0x8906, Name: "SIOCGSTAMP_OLD"}, {Number: 0x8907, Name: "SIOCGSTAMPNS_OLD"}, {Number: 0x80108906, Name: "SIOCGSTAMP_NEW"}, {Number: 0x80108907, Name: "SIOCGSTAMPNS_NEW"}, {Number: 0x894b, Name: "SIOCOUTQNSD"},
	}},
	{"asks what interfaces the jail's network has; SIOCETHTOOL changes some only with a capability that nobody inside has", false, []Request{
		{Number: 0x8912, Name: "SIOCGIFCONF"}, {Number: 0x8910, Name: "SIOCGIFNAME"}, {Number: 0x8933, Name: "SIOCGIFINDEX"}, {Number: 0x8913, Name: "SIOCGIFFLAGS"}, {Number: 0x8915, Name: "SIOCGIFADDR"},
		{Number: 0x8917, Name: "SIOCGIFDSTADDR"}, {Number: 0x8919, Name: "SIOCGIFBRDADDR"}, {Number: 0x891b, Name: "SIOCGIFNETMASK"}, {Number: 0x891d, Name: "SIOCGIFMETRIC"}, {Number: 0x8921, Name: "SIOCGIFMTU"},
		{Number: 0x8927, Name: "SIOCGIFHWADDR"}, {Number: 0x8942, Name: "SIOCGIFTXQLEN"}, {Number: 0x8970, Name: "SIOCGIFMAP"}, {Number: 0x8946, Name: "SIOCETHTOOL"}, {Number: 0x8954, Name: "SIOCGARP"},
	}},
	{"answers a filter of the process's own", false, []Request{
		{Number: 0xc0502100, Name: "SECCOMP_IOCTL_NOTIF_RECV"}, {Number: 0xc0182101, Name: "SECCOMP_IOCTL_NOTIF_SEND"}, {Number: 0x40082102, Name: "SECCOMP_IOCTL_NOTIF_ID_VALID"},
		{Number: 0x80082102, Name: "SECCOMP_IOCTL_NOTIF_ID_VALID_WRONG_DIR"}, {Number: 0x40182103, Name: "SECCOMP_IOCTL_NOTIF_ADDFD"}, {Number: 0x40082104, Name: "SECCOMP_IOCTL_NOTIF_SET_FLAGS"},
	}},
	{"looks at namespaces, which a container has", true, []Request{
		{Number: 0xb701, Name: "NS_GET_USERNS"}, {Number: 0xb702, Name: "NS_GET_PARENT"}, {Number: 0xb703, Name: "NS_GET_NSTYPE"}, {Number: 0xb704, Name: "NS_GET_OWNER_UID"},
	}},
	{"sets up the network of a container's own", true, []Request{
		{Number: 0x8914, Name: "SIOCSIFFLAGS"}, {Number: 0x8916, Name: "SIOCSIFADDR"}, {Number: 0x891c, Name: "SIOCSIFNETMASK"}, {Number: 0x8922, Name: "SIOCSIFMTU"}, {Number: 0x890b, Name: "SIOCADDRT"},
	}},
	{"serves a file system of a container's own", true, []Request{{Number: 0x8004e500, Name: "FUSE_DEV_IOC_CLONE"}}},
}

// refusedRequests fail with EPERM, so that who asks knows that it was refused: programs go on as if they did not know of a file that has no such request.
var refusedRequests = []Request{
	{Number: 0x5412, Name: "TIOCSTI", Why: "types into a terminal"},
	{Number: 0x541c, Name: "TIOCLINUX", Why: "types into a console"},
	{Number: 0x541d, Name: "TIOCCONS", Why: "takes the console's output"},
	{Number: 0x40086602, Name: "FS_IOC_SETFLAGS", Why: "changes a file in a way that nobody captures"},
	{Number: 0x40046602, Name: "FS_IOC32_SETFLAGS", Why: "changes a file in a way that nobody captures"},
	{Number: 0x401c5820, Name: "FS_IOC_FSSETXATTR", Why: "changes a file in a way that nobody captures"},
	{Number: 0x40087602, Name: "FS_IOC_SETVERSION", Why: "changes a file in a way that nobody captures"},
	{Number: 0x40086604, Name: "EXT4_IOC_SETVERSION", Why: "changes a file in a way that nobody captures"},
	{Number: 0xc028660f, Name: "EXT4_IOC_MOVE_EXT", Why: "changes a file in a way that nobody captures"},
	{Number: 0x40806685, Name: "FS_IOC_ENABLE_VERITY", Why: "changes a file for good"},
	{Number: 0x800c6613, Name: "FS_IOC_SET_ENCRYPTION_POLICY", Why: "changes a directory for good"},
	{Number: 0xc0506617, Name: "FS_IOC_ADD_ENCRYPTION_KEY", Why: "changes the keys of a whole file system"},
	{Number: 0xc0406618, Name: "FS_IOC_REMOVE_ENCRYPTION_KEY", Why: "locks the user's encrypted files"},
	{Number: 0xc0406619, Name: "FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS", Why: "locks everybody's encrypted files"},
}

// Requests are the rows of the list, in the order in which a filter tries them.
func Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		for _, family := range requests {
			for _, r := range family.list {
				r.Why, r.Containers = family.why, family.containers
				if !yield(r) {
					return
				}
			}
		}
	}
}
