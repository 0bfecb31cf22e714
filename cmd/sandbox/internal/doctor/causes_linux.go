package doctor

import (
	"errors"

	"golang.org/x/sys/unix"
)

// cause is why something is refused, and the least that would allow it.
type cause struct {
	why, advice string
	fix         *Fix // of the same, what can be installed
}

// userNamespaceCause says why no user namespace could be made. read returns the text of
// a file of /proc, uid is who tried.
func userNamespaceCause(err error, uid int, read func(path string) string) cause {
	switch {
	case namespacesFiltered():
		return cause{
			why:    "a seccomp filter refuses it, as containers have one",
			advice: "give the container a seccomp profile that also allows clone and unshare with CLONE_NEWUSER, and mount, as packaging/seccomp.json does (--security-opt seccomp=FILE; seccomp=unconfined allows everything)",
		}
	case read("/proc/sys/user/max_user_namespaces") == "0" || errors.Is(err, unix.ENOSPC):
		return cause{"user.max_user_namespaces is used up, or 0", "sysctl user.max_user_namespaces=15000", sysctl("user.max_user_namespaces", "15000")}
	case uid != 0 && read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return cause{"only root may make them here", "sysctl kernel.unprivileged_userns_clone=1", sysctl("kernel.unprivileged_userns_clone", "1")}
	case uid != 0 && read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return cause{"AppArmor takes their rights away", "an AppArmor profile for sandbox with the rule 'userns,' or sysctl kernel.apparmor_restrict_unprivileged_userns=0", profile(program())}
	case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS):
		return cause{why: "this kernel has none", advice: "a kernel with CONFIG_USER_NS is needed"}
	case errors.Is(err, unix.EPERM) && read("/proc/self/uid_map") == "":
		return cause{why: "this user namespace maps nobody", advice: "map at least this user: /proc/self/uid_map is empty"}
	}
	return cause{advice: "if this is a chroot, run sandbox outside; else ask whoever set up this container or its security module"}
}

// namespacesFiltered tells whether a seccomp filter refuses user namespaces. It asks for
// what the kernel refuses always, before it looks at rights: another error than the
// kernel's is that of a filter.
func namespacesFiltered() bool {
	const never = unix.CLONE_NEWUSER | unix.CLONE_FS
	_, _, err := unix.RawSyscall6(unix.SYS_CLONE, never, 0, 0, 0, 0, 0)
	return err != 0 && err != unix.EINVAL
}

// fuseCause says why /dev/fuse could not be opened.
func fuseCause(err error, uid int) cause { return deviceCause("/dev/fuse", "fuse", err, uid) }

// deviceCause says why a device could not be opened that a module of the kernel has.
func deviceCause(path, module string, err error, uid int) cause {
	give := "give the container the device: --device " + path
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO):
		return cause{advice: "load it: modprobe " + module + " (in a container, give it the device: --device " + path + ")"}
	case errors.Is(err, unix.EPERM):
		// The mode of a file gives EACCES; the cgroup's list of devices gives this.
		return cause{why: "the device cgroup of this container refuses it", advice: give + " (Kubernetes: a device plugin)"}
	case errors.Is(err, unix.EACCES) && uid == 0:
		return cause{why: "it lies on a file system mounted nodev, or a security module refuses it", advice: "mount it without nodev, or " + give}
	case errors.Is(err, unix.EACCES):
		return cause{why: "its mode refuses it", advice: "let users open it: chmod 0666 " + path + packaged[module] + ", or run sandbox as root"}
	}
	return cause{}
}

// packaged says which package does it, too.
var packaged = map[string]string{"fuse": " (or apt install fuse3)"}

// refused makes f say that err was the answer, and why.
func refused(f Finding, err error, c cause) Finding {
	f.State, f.Detail, f.Advice, f.Fix = "fail", err.Error(), c.advice, c.fix
	if c.why != "" {
		f.Detail += ": " + c.why
	}
	return f
}
