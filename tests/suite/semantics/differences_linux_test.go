package semantics

// jailed is what differs over each bridge.
var jailed = []difference{
	{"open-special-bits", "setuid-stat=file,4755,1,0 setgid=ok setgid-stat=file,2755,1,0",
		"setuid-stat=file,0755,1,0 setgid=ok setgid-stat=file,0755,1,0", noSetuid},
	{"chmod-special-bits", "setuid-stat=file,4755,1,1 setgid=ok setgid-stat=file,2755,1,1",
		"setuid-stat=file,0755,1,1 setgid=ok setgid-stat=file,0755,1,1", noSetuid},
	{"chmod-special-descriptors", "fchmod-stat=file,4755,1,0 empty-path=ok empty-path-stat=file,6755,1,0 proc=ok proc-stat=file,2755,1,0",
		"fchmod-stat=file,0755,1,0 empty-path=ok empty-path-stat=file,0755,1,0 proc=ok proc-stat=file,0755,1,0", noSetuid},
	{"mknod", "whiteout=ok", "whiteout=EPERM", noDevices},
	{"rename-whiteout", "whiteout=ok list=f,g", "whiteout=EINVAL list=f", noDevices},
}

// fuse is what differs because of the kernel's FUSE client.
var fuse = []difference{
	{"statx", "born=true", "born=false", "the protocol knows no time of birth"},
	{"inode-flags", "get0=ok set0=ok immutable0=EPERM get1=ok set1=ok immutable1=EPERM",
		"get0=ENOTTY set0=EPERM immutable0=EPERM get1=ENOTTY set1=EPERM immutable1=EPERM", "the server has no ioctl, and the filter refuses to set flags"},
	{"removed-directory", "fchmod=ok futimens=ok fsync=ok up=ok fstat=dir,0700", "fchmod=ENOENT futimens=ENOENT fsync=ENOENT up=ok fstat=dir,0755", noDirectoryHandles},
	{"cwd-removed", "chmod=ok tmpfile=EPERM", "chmod=ENOENT tmpfile=ENOENT", noDirectoryHandles},
	{"seek", "seek6=EINVAL", "seek6=ok", "the client takes any file to be as large as can be"},
	{"fallocate-shift", "collapse=ok collapsed=file,0644,1,4097 insert=ok", "collapse=ENOTSUP collapsed=file,0644,1,8193 insert=ENOTSUP", "the client does not pass them on"},
	{"descriptor-poll", "epoll=EPERM", "epoll=ok", "the client has a poll for every file"},
	{"exec-text-busy-trunc", "kept=true", "kept=false", "the client has the server cut the file off before it looks whether it runs"},
}

// mediated is what differs because the folder is a read-only mount inside.
var mediated = []difference{
	{"cwd-removed", "chmod=ok tmpfile=EPERM access=ok",
		"chmod=ENOENT tmpfile=ENOENT access=ENOENT", noName},
	{"descriptor-flags", "get0=0102001 get1=0104001 get3=0140001 get4=0100001 get5=0100001 get6=0100001",
		"get0=0502001 get1=0504001 get3=0540001 get4=0500001 get5=0500001 get6=0500001", openFlag},
	{"descriptor-flags", "get2=01100001", "get2=01500001", openFlag},
	{"descriptor-info", "flags=02102002",
		"flags=02502002", openFlag},
	{"hardlink-open-file", "f0-other-name=ok f2-other-name=ok",
		"f0-other-name=ENOENT f2-other-name=ENOENT", noName},
	{"inode-flags", "set0=ok set1=ok",
		"set0=EPERM set1=EPERM", noFlags},
	{"inotify", "truncated=[0x2:g]",
		"truncated=[0x2:g_0x8:g]", truncates},
	{"lease", "reader=ok unlock=ok with-writer=EAGAIN without=ok unlock2=ok exclusive-shared=EAGAIN exclusive=ok unlock3=ok",
		"reader=EPERM unlock=EPERM with-writer=EPERM without=EPERM unlock2=EPERM exclusive-shared=EPERM exclusive=EPERM unlock3=EPERM", noLeases},
	{"open-getfl", "a-plain=0100001 b-append=0102002 c-nonblock=0104001 d-sync=04110001 e-dsync=0110001 g-noatime=01100002 h-noctty=0100002 k-async=0120001",
		"a-plain=0500001 b-append=0502002 c-nonblock=0504001 d-sync=04510001 e-dsync=0510001 g-noatime=01500002 h-noctty=0500002 k-async=0520001", openFlag},
	{"open-getfl", "i-rdonly=0100000 j-rdonly-create=0100000",
		"i-rdonly=0500000 j-rdonly-create=0500000", openFlag},
	{"limit-descriptors", "h-none:EMFILE", "h-none:ENOENT", missingFirst},
	{"openat2-resolve", "", "", noOpenat2},
	{"openat2-arguments", "", "", noOpenat2},
	{"openat2-create", "", "", noOpenat2},
	{"open-path-reopen", "unlinked=ok",
		"unlinked=ENOENT", noName},
	{"removed-directory", "fchmod=ok futimens=ok fstat=dir,0700",
		"fchmod=ENOENT futimens=ENOENT fstat=dir,0755", noName},
	{"rename-whiteout", "whiteout=EINVAL",
		"whiteout=EROFS", readOnlyView},
	{"rights-existing-in-unwritable", "rmdir-file=EACCES unlink-directory=EACCES",
		"rmdir-file=ENOTDIR unlink-directory=EISDIR", kindFirst},
	{"socket-names", "same1=true same2=true same3=true",
		"same1=false same2=false same3=false", socketName},
	{"unlink-open", "fchmod-reader=ok futimens=ok fsetxattr=ok fchown=ok fstat=file,0640,0,2",
		"fchmod-reader=ENOENT futimens=ENOENT fsetxattr=ENOENT fchown=ENOENT fstat=file,0600,0,2", noName},
	{"unlink-reopen", `writer=ok write=2 read2="345" trunc=ok fstat=file,0644,0,0 chmod=ok unwritable=EACCES truncate=EACCES xattr=EACCES utimens=ok`,
		"writer=ENOENT write=EBADF read2=EBADF trunc=ENOENT fstat=EBADF chmod=ENOENT unwritable=ENOENT truncate=ENOENT xattr=ENOENT utimens=ENOENT", noName},
	{"write-flags", "fl=0100001",
		"fl=0500001", openFlag},
	{"xattr-descriptors", "capability0=EINVAL capability1=EINVAL capability2=EINVAL",
		"capability0=EPERM capability1=EPERM capability2=EPERM", policyFirst},
	{"xattr-namespaces", "security.capability=EINVAL",
		"security.capability=EPERM", policyFirst},
	{"xattr-new-calls", "opath-set=EBADF opath-remove=EBADF",
		"opath-set=ok opath-remove=ok", pathDescriptor},
	{"path-name-256-below", "rmdir:ENOENT_unlink:ENOENT", "rmdir:ENAMETOOLONG_unlink:ENAMETOOLONG", nameFirst},
	{"path-name-256-below", "rename-to:ENOENT_rename-from:ENOENT_exchange:ENOENT_noreplace:ENOENT",
		"rename-to:ENAMETOOLONG_rename-from:ENAMETOOLONG_exchange:ENAMETOOLONG_noreplace:ENAMETOOLONG", nameFirst},
	{"rights-unwritable-directory", "rmdir:EACCES_unlink:EACCES", "rmdir:ENOTDIR_unlink:EACCES", kindFirst},
	{"rights-unwritable-directory", "rmdir:EACCES_unlink:EACCES", "rmdir:EACCES_unlink:EISDIR", kindFirst},
	{"rights-unwritable-directory", "link-from:EPERM_rename-to:EACCES", "link-from:EPERM_rename-to:EISDIR", kindFirst},
}

// mediatedRoot is what differs, too, if root started it: the folder inside shows other owners
// than the host's mount does, and what is handed over is opened a second time for that.
var mediatedRoot = []difference{
	{"open-fd-path", "writer-path=CWD/f renamed-path=CWD/g unlinked-path=CWD/g_(deleted)",
		"writer-path=/open-fd-path/f renamed-path=/open-fd-path/g unlinked-path=/open-fd-path/g_(deleted)", detached},
	{"inotify", "created=[0x100:f]", "created=[0x100:f_0x8:f]", twice},
}

// fuseUser is what differs, too, if an ordinary user started it.
var fuseUser = []difference{
	{"exec-mode", "unreadable=ok", "unreadable=EACCES", "the server is the user, who must not read the file"},
}

// Why the mediated bridge differs. That noName changes what a program can do
// is known; the others are errors of another name, or what a program is told of itself.
const (
	readOnlyView   = "the folder is a read-only mount, and says so"
	noName         = "the bridge changes what it finds by a name or a granted descriptor, so not what has lost its name and was opened for reading"
	policyFirst    = "what may not be set is refused before the value is looked at"
	kindFirst      = "the bridge looks what is there before it asks whether the directory may be changed"
	missingFirst   = "the bridge says that nothing is there before the kernel looks for a free descriptor"
	nameFirst      = "the bridge looks at the length of the name before it looks at the directory"
	openFlag       = "the bridge opens with O_NOFOLLOW, which stays"
	socketName     = "the socket is bound by its last name"
	pathDescriptor = "setxattrat does not find out that a descriptor is O_PATH"
	noFlags        = "flags of inodes are not in the log"
	noLeases       = "a lease would hold up whoever opens the file outside"
	noOpenat2      = "the flags of openat2 are in memory, where they may change until the kernel looks"
	detached       = "the mount that shows the right owners is nowhere in the view, so paths on it begin at the folder"
	twice          = "the bridge makes the file, hands over a second opening of it and closes the first"
	truncates      = "the bridge opens the file, cuts it off and closes it"
)

const (
	noSetuid           = "what runs inside must not make a program that runs as its owner outside, so files are made without these bits"
	noDevices          = "what runs inside makes no devices, and a whiteout is one"
	noDirectoryHandles = "the server keeps no descriptor of a removed directory"
)
