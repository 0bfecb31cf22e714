package qemu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of linux/kvm.h.
const (
	kvmCreateVM        = 0xae01
	kvmVCPUMapSize     = 0xae04
	kvmSupportedCPUID  = 0xc008ae05
	kvmCreateVCPU      = 0xae41
	kvmSetMemory       = 0x4020ae46
	kvmSetTSS          = 0xae47
	kvmRun             = 0xae80
	kvmSetRegisters    = 0x4090ae82
	kvmGetSystem       = 0x8138ae83
	kvmSetSystem       = 0x4138ae84
	kvmSetCPUID        = 0x4008ae90
	kvmExitIO          = 2
	kvmTSSAddress      = 0xfffbd000
	kvmMostCPUID       = 256
	offExit, offIO     = 8, 32 // in struct kvm_run
	offImmediate       = 1
	lengthSystem       = 0x138
	offCR0, offCR3     = 224, 240
	offCR4, offEFER    = 248, 264
	lengthRegisters    = 144
	offRDI, offRSP     = 40, 48
	offRIP, offRFLAGS  = 128, 136
	probePort, answer  = 0x42, 42
	trialTables        = 0x1000
	trialCode          = 0x10000
	trialStack         = 0x20000
	trialData          = 0x30000
	trialMemory        = 2 << 20
	systemSegment      = 24
	codeDescriptor     = 0x0b // executable, readable, accessed
	dataDescriptor     = 0x03
	pagePresent        = 3 // and writable
	pageLarge          = 0x80
	longMode           = 0x500      // EFER: LME, LMA
	protectedAndPaging = 0x80050033 // CR0: as Linux has it
	physicalExtension  = 0x20       // CR4
)

// trialProgram does, in long mode, what a kernel does all the time and what a KVM that emulates may not know, and says so on a port.
var trialProgram = [...]byte{
	0x41, 0xb8, 0xe8, 0x03, 0x00, 0x00, // mov r8d, 1000
	0xf0, 0x48, 0x0f, 0xc7, 0x0f, // again: lock cmpxchg16b [rdi]
	0x0f, 0x20, 0xd8, // mov rax, cr3
	0x0f, 0x22, 0xd8, // mov cr3, rax
	0x49, 0xff, 0xc8, // dec r8
	0x75, 0xf0, // jnz again
	0xb0, answer, // mov al, 42
	0xe6, probePort, // out 0x42, al
	0xf4,       // hlt
	0xeb, 0xfd, // jmp to the hlt
}

// runsCode returns nil if a machine with one processor runs a few thousand instructions in long mode within the time: that KVM makes machines does not tell
// that they get on.
func runsCode(device *os.File, limit time.Duration) error {
	return runs(device, trialProgram[:], limit)
}

func runs(device *os.File, program []byte, limit time.Duration) error {
	t := &kvmTrial{program: program}
	err := t.make(int(device.Fd()))
	if err == nil {
		err = t.run(limit)
	}
	if t.stuck.Load() {
		return err // the kernel still uses it
	}
	return errors.Join(err, t.free())
}

// kvmTrial is a machine with one processor.
type kvmTrial struct {
	program       []byte
	vm, cpu       int
	memory, state []byte // state is the processor's struct kvm_run
	stuck         atomic.Bool
}

// request is an ioctl.
func request(fd int, name string, number uint, arg uintptr) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(number), arg)
	if errno != 0 {
		return -1, os.NewSyscallError(name, errno)
	}
	return int(r), nil
}

func requestWith(fd int, name string, number uint, data []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(number), uintptr(unsafe.Pointer(&data[0])))
	if errno != 0 {
		return os.NewSyscallError(name, errno)
	}
	return nil
}

// make makes the machine. What there is of it after an error is given back by free.
func (t *kvmTrial) make(device int) (err error) {
	t.vm, t.cpu = -1, -1
	if t.vm, err = request(device, "KVM_CREATE_VM", kvmCreateVM, 0); err != nil {
		return err
	}
	unix.CloseOnExec(t.vm)
	_, _ = request(t.vm, "KVM_SET_TSS_ADDR", kvmSetTSS, kvmTSSAddress) // some processors of Intel need it
	if t.memory, err = unix.Mmap(-1, 0, trialMemory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	region := binary.NativeEndian.AppendUint64(make([]byte, 8, 32), 0) // slot and flags; the guest's address
	region = binary.NativeEndian.AppendUint64(region, trialMemory)
	region = binary.NativeEndian.AppendUint64(region, uint64(uintptr(unsafe.Pointer(&t.memory[0]))))
	if err := requestWith(t.vm, "KVM_SET_USER_MEMORY_REGION", kvmSetMemory, region); err != nil {
		return err
	}
	if t.cpu, err = request(t.vm, "KVM_CREATE_VCPU", kvmCreateVCPU, 0); err != nil {
		return err
	}
	unix.CloseOnExec(t.cpu)
	size, err := request(device, "KVM_GET_VCPU_MMAP_SIZE", kvmVCPUMapSize, 0)
	if err != nil {
		return err
	}
	if t.state, err = unix.Mmap(t.cpu, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	cpuid := make([]byte, 8+kvmMostCPUID*40)
	binary.NativeEndian.PutUint32(cpuid, kvmMostCPUID)
	if err := requestWith(device, "KVM_GET_SUPPORTED_CPUID", kvmSupportedCPUID, cpuid); err != nil {
		return err
	}
	if err := requestWith(t.cpu, "KVM_SET_CPUID2", kvmSetCPUID, cpuid); err != nil {
		return err
	}
	return t.prepare()
}

// prepare puts the program into the memory, and the processor into long mode before it.
func (t *kvmTrial) prepare() error {
	word := binary.LittleEndian
	word.PutUint64(t.memory[trialTables:], trialTables+0x1000|pagePresent)
	word.PutUint64(t.memory[trialTables+0x1000:], trialTables+0x2000|pagePresent)
	word.PutUint64(t.memory[trialTables+0x2000:], pagePresent|pageLarge) // the first two MiB are where they are
	copy(t.memory[trialCode:], t.program)

	system := make([]byte, lengthSystem)
	if err := requestWith(t.cpu, "KVM_GET_SREGS", kvmGetSystem, system); err != nil {
		return err
	}
	for i := range 6 { // cs, ds, es, fs, gs, ss
		segment := system[i*systemSegment:]
		word.PutUint64(segment, 0)
		word.PutUint32(segment[8:], 0xffffffff)
		kind, long, selector := byte(dataDescriptor), byte(0), uint16(0x10)
		if i == 0 {
			kind, long, selector = codeDescriptor, 1, 0x08
		}
		word.PutUint16(segment[12:], selector)
		copy(segment[14:], []byte{kind, 1, 0, 1 - long, 1, long, 1, 0, 0}) // type, present, dpl, db, s, l, g, avl, unusable
	}
	word.PutUint64(system[offCR0:], protectedAndPaging)
	word.PutUint64(system[offCR3:], trialTables)
	word.PutUint64(system[offCR4:], physicalExtension)
	word.PutUint64(system[offEFER:], longMode)
	if err := requestWith(t.cpu, "KVM_SET_SREGS", kvmSetSystem, system); err != nil {
		return err
	}
	registers := make([]byte, lengthRegisters)
	word.PutUint64(registers[offRDI:], trialData)
	word.PutUint64(registers[offRSP:], trialStack)
	word.PutUint64(registers[offRIP:], trialCode)
	word.PutUint64(registers[offRFLAGS:], 2)
	return requestWith(t.cpu, "KVM_SET_REGS", kvmSetRegisters, registers)
}

// run has the program run to its end, or until the time is over.
func (t *kvmTrial) run(limit time.Duration) error {
	thread, ended := make(chan int, 1), make(chan struct{})
	var failed error // once ended is closed
	var over atomic.Bool
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		for {
			_, failed = request(t.cpu, "KVM_RUN", kvmRun, 0)
			if (errors.Is(failed, unix.EINTR) || errors.Is(failed, unix.EAGAIN)) && !over.Load() {
				continue
			}
			close(ended)
			return
		}
	}()
	tid := <-thread
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
		if failed != nil {
			return failed
		}
		return t.result()
	case <-timer.C:
	}
	late := fmt.Errorf("a machine did not run a thousand rounds of a loop within %v", limit)
	over.Store(true)
	t.state[offImmediate] = 1
	for range 100 { // until it is out of the kernel
		_ = unix.Tgkill(unix.Getpid(), tid, unix.SIGURG)
		select {
		case <-ended:
			return late
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.stuck.Store(true)
	return late
}

// result says how the program ended.
func (t *kvmTrial) result() error {
	reason := binary.NativeEndian.Uint32(t.state[offExit:])
	io := t.state[offIO:]
	if reason != kvmExitIO {
		return fmt.Errorf("a machine stopped in its first instructions (exit reason %d)", reason)
	}
	at := binary.NativeEndian.Uint64(io[8:])
	if port := binary.NativeEndian.Uint16(io[2:]); io[0] != 1 || port != probePort || at >= uint64(len(t.state)) || t.state[at] != answer {
		return fmt.Errorf("a machine did something else than its program says (port %#x)", port)
	}
	return nil
}

func (t *kvmTrial) free() error {
	var err error
	for _, m := range [][]byte{t.state, t.memory} {
		if m != nil {
			err = errors.Join(err, unix.Munmap(m))
		}
	}
	for _, fd := range []int{t.cpu, t.vm} {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}
