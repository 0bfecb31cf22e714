package qemu

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// tie is a job object: when its last handle, ours, is closed, be it by our end, the process in it is ended.
type tie struct{ job windows.Handle }

// tieToUs puts a process into a job, which ends it with us; the locks of the files end then, too.
func tieToUs(p *os.Process, _ []*os.File) (tie, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return tie{}, os.NewSyscallError("CreateJobObject", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err == nil {
		var process windows.Handle
		process, err = windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.Pid))
		if err == nil {
			err = windows.AssignProcessToJobObject(job, process)
			_ = windows.CloseHandle(process)
		}
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return tie{}, os.NewSyscallError("job object", err)
	}
	return tie{job}, nil
}

// loosen gives the job up, once the process has ended.
func (t tie) loosen() { _ = windows.CloseHandle(t.job) }

// asEmulator has QEMU show no window.
func asEmulator(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW}
}
