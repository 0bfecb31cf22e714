package filters

import "strings"

// alike says for the calls that i386 has by a name of its own as which call of the table they are judged: their arguments stand in the same places.
var alike = pairs(`
_llseek=lseek _newselect=select chown32=chown clock_adjtime64=clock_adjtime clock_getres_time64=clock_getres clock_gettime64=clock_gettime
clock_nanosleep_time64=clock_nanosleep clock_settime64=clock_settime fadvise64_64=fadvise64 fchown32=fchown fcntl64=fcntl fstat64=fstat fstatat64=newfstatat
fstatfs64=fstatfs ftruncate64=ftruncate futex_time64=futex getegid32=getegid geteuid32=geteuid getgid32=getgid getgroups32=getgroups getresgid32=getresgid
getresuid32=getresuid getuid32=getuid io_pgetevents_time64=io_pgetevents ipc=shmget lchown32=lchown lstat64=lstat mmap2=mmap mq_timedreceive_time64=mq_timedreceive
mq_timedsend_time64=mq_timedsend oldfstat=fstat oldlstat=lstat oldolduname=uname oldstat=stat olduname=uname ppoll_time64=ppoll pselect6_time64=pselect6
readdir=getdents recvmmsg_time64=recvmmsg rt_sigtimedwait_time64=rt_sigtimedwait sched_rr_get_interval_time64=sched_rr_get_interval semtimedop_time64=semtimedop
sendfile64=sendfile setfsgid32=setfsgid setfsuid32=setfsuid setgid32=setgid setgroups32=setgroups setregid32=setregid setresgid32=setresgid setresuid32=setresuid
setreuid32=setreuid setuid32=setuid sgetmask=rt_sigprocmask sigaction=rt_sigaction signal=rt_sigaction sigpending=rt_sigpending sigprocmask=rt_sigprocmask
sigreturn=rt_sigreturn sigsuspend=rt_sigsuspend ssetmask=rt_sigprocmask stat64=stat statfs64=statfs stime=settimeofday timer_gettime64=timer_gettime
timer_settime64=timer_settime timerfd_gettime64=timerfd_gettime timerfd_settime64=timerfd_settime truncate64=truncate ugetrlimit=getrlimit umount=umount2
utimensat_time64=utimensat waitpid=wait4
`)

// owned are calls of i386 alone, or with another meaning there, that are allowed: they are about the caller. A thread has its variables by set_thread_area there;
// owners of 16 bits are only asked for, and refused by the kernel.
var owned = strings.Fields("set_thread_area get_thread_area nice chown lchown fchown")

// absent are calls of i386 alone that fail with ENOSYS, as obsolete ones do.
var absent = strings.Fields("bdflush break ftime gtty idle lock mpx prof profil stty ulimit vm86 vm86old")

// socketcallSocket is the first argument of i386's socketcall that makes a socket.
const socketcallSocket = 1

// pairs reads words with an equals sign between two names.
func pairs(text string) map[string]string {
	m := make(map[string]string)
	for _, w := range strings.Fields(text) {
		name, as, _ := strings.Cut(w, "=")
		m[name] = as
	}
	return m
}
