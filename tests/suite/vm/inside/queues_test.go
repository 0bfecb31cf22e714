//go:build inguest

package inside

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A virtio device without its driver: what virtio 1.1, 4.1.4 says of PCI.
type device struct {
	t      *testing.T
	pci    string // its directory in /sys
	common []byte
	notify []byte
	factor uint32
}

const (
	capCommon, capNotify = 1, 2

	regDriverFeatureSelect, regDriverFeature = 0x08, 0x0c
	regStatus, regQueueSelect, regQueueSize  = 0x14, 0x16, 0x18
	regQueueEnable, regQueueNotifyOff        = 0x1c, 0x1e
	regQueueDesc, regQueueAvail, regUsed     = 0x20, 0x28, 0x30

	ringSize = 16
	queues   = 2 // of high priority, and of requests
)

// write puts text into a file of /sys.
func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

// takeDevice takes the first folder's device from its driver.
func takeDevice(t *testing.T) *device {
	t.Helper()
	if err := unix.Unmount(folder, 0); err != nil {
		t.Fatal(err)
	}
	drivers, _ := filepath.Glob("/sys/bus/virtio/drivers/virtiofs/virtio*")
	if len(drivers) == 0 {
		t.Fatal("no device of virtiofs")
	}
	virtio, err := filepath.EvalSymlinks(drivers[0])
	if err != nil {
		t.Fatal(err)
	}
	d := &device{t: t, pci: filepath.Dir(virtio)}
	write(t, "/sys/bus/pci/drivers/virtio-pci/unbind", filepath.Base(d.pci))
	config, err := os.OpenFile(d.pci+"/config", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer config.Close()
	space := make([]byte, 256)
	if _, err := config.ReadAt(space, 0); err != nil {
		t.Fatal(err)
	}
	const memoryAndMaster = 6
	if _, err := config.WriteAt([]byte{space[4] | memoryAndMaster}, 4); err != nil {
		t.Fatal(err)
	}
	for at := space[0x34]; at != 0; at = space[at+1] {
		const vendor = 9
		if c := space[at:]; c[0] == vendor && (c[3] == capCommon || c[3] == capNotify) {
			offset, length := binary.LittleEndian.Uint32(c[8:]), binary.LittleEndian.Uint32(c[12:])
			m := d.bar(c[4])[offset:][:length]
			if c[3] == capCommon {
				d.common = m
			} else {
				d.notify, d.factor = m, binary.LittleEndian.Uint32(c[16:])
			}
		}
	}
	return d
}

func (d *device) bar(n byte) []byte {
	d.t.Helper()
	f, err := os.OpenFile(d.pci+"/resource"+string('0'+n), os.O_RDWR, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		d.t.Fatal(err)
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

// giveBack lets the driver have it again, and mounts.
func (d *device) giveBack() {
	d.t.Helper()
	put8(d.common, regStatus, 0)
	write(d.t, "/sys/bus/pci/drivers/virtio-pci/bind", filepath.Base(d.pci))
	if err := unix.Mount("working0", folder, "virtiofs", 0, ""); err != nil {
		d.t.Fatal(err)
	}
}

func put8(m []byte, at int, v uint8)   { *(*uint8)(unsafe.Pointer(&m[at])) = v }
func put16(m []byte, at int, v uint16) { *(*uint16)(unsafe.Pointer(&m[at])) = v }
func put32(m []byte, at int, v uint32) { *(*uint32)(unsafe.Pointer(&m[at])) = v }
func get16(m []byte, at int) uint16    { return *(*uint16)(unsafe.Pointer(&m[at])) }

func put64(m []byte, at int, v uint64) {
	put32(m, at, uint32(v))
	put32(m, at+4, uint32(v>>32))
}

// page is memory whose physical address is known.
type page struct {
	b    []byte
	phys uint64
}

func newPage(t *testing.T) page {
	t.Helper()
	size := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_LOCKED|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	b[0] = 1
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	entry := make([]byte, 8)
	if _, err := f.ReadAt(entry, int64(uintptr(unsafe.Pointer(&b[0])))/int64(size)*8); err != nil {
		t.Fatal(err)
	}
	const numberBits = 55
	frame := binary.LittleEndian.Uint64(entry) & (1<<numberBits - 1)
	if frame == 0 {
		t.Fatal("the kernel does not tell where memory is")
	}
	return page{b, frame * uint64(size)}
}

// start brings the device up with every queue in the page: descriptors at 0,
// available ones at 1024, used ones at 2048.
func (d *device) start(p page) {
	const acknowledge, driver, driverOK, featuresOK = 1, 2, 4, 8
	status := func(v uint8) { put8(d.common, regStatus, v) }
	status(0)
	for end := time.Now().Add(5 * time.Minute); d.common[regStatus] != 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	status(acknowledge | driver)
	put32(d.common, regDriverFeatureSelect, 1)
	put32(d.common, regDriverFeature, 1) // VERSION_1
	put32(d.common, regDriverFeatureSelect, 0)
	put32(d.common, regDriverFeature, 0)
	status(acknowledge | driver | featuresOK)
	for q := range uint16(queues) {
		put16(d.common, regQueueSelect, q)
		put16(d.common, regQueueSize, ringSize)
		put64(d.common, regQueueDesc, p.phys)
		put64(d.common, regQueueAvail, p.phys+1024)
		put64(d.common, regUsed, p.phys+2048)
		put16(d.common, regQueueEnable, 1)
	}
	status(acknowledge | driver | featuresOK | driverOK)
}

// kick says that there is something in every queue.
func (d *device) kick() {
	for q := range uint16(queues) {
		put16(d.common, regQueueSelect, q)
		put16(d.notify, int(uint32(get16(d.common, regQueueNotifyOff))*d.factor), q)
	}
}

func descriptor(b []byte, addr uint64, length uint32, flags, next uint16) {
	binary.LittleEndian.PutUint64(b, addr)
	binary.LittleEndian.PutUint32(b[8:], length)
	binary.LittleEndian.PutUint16(b[12:], flags)
	binary.LittleEndian.PutUint16(b[14:], next)
}

const hasNext, writable, indirect = 1, 2, 4

// attacks fill the page with what no driver would.
func attacks(p page, data page, r *rand.Rand) map[string]func() {
	b := p.b
	offer := func(n uint16) {
		for i := range n {
			binary.LittleEndian.PutUint16(b[1024+4+2*(i%ringSize):], i%ringSize)
		}
		binary.LittleEndian.PutUint16(b[1024+2:], n)
	}
	request := func(opcode uint32, length uint32, body string) {
		h := data.b
		clear(h)
		binary.LittleEndian.PutUint32(h, length)
		binary.LittleEndian.PutUint32(h[4:], opcode)
		binary.LittleEndian.PutUint64(h[8:], 7)
		binary.LittleEndian.PutUint64(h[16:], r.Uint64N(5))
		copy(h[40:], body)
	}
	return map[string]func(){
		"outside": func() { descriptor(b, 1<<45, 4096, 0, 0); offer(1) },
		"end of memory": func() {
			descriptor(b, ^uint64(0)-10, 4096, hasNext, 1)
			descriptor(b[16:], 0, 1<<31, writable, 0)
			offer(1)
		},
		"circle": func() { descriptor(b, data.phys, 40, hasNext, 0); offer(ringSize) },
		"itself": func() {
			descriptor(b, p.phys, 4096, hasNext, 1)
			descriptor(b[16:], p.phys, 4096, writable, 0)
			offer(1)
		},
		"nested": func() { descriptor(b, p.phys, 64, indirect, 0); offer(1) },
		"far index": func() {
			descriptor(b, data.phys, 40, 0, 0)
			offer(1)
			binary.LittleEndian.PutUint16(b[1024+2:], 0x8000)
		},
		"no such descriptor": func() { offer(1); binary.LittleEndian.PutUint16(b[1024+4:], 0xffff) },
		"huge reply": func() {
			request(15, 80, "")
			descriptor(b, data.phys, 80, hasNext, 1)
			descriptor(b[16:], 0, 0xffffffff, writable, 0)
			offer(1)
		},
		"random ring": func() {
			for i := range b {
				b[i] = byte(r.Uint32())
			}
		},
		"random requests": func() {
			request(r.Uint32N(60), r.Uint32N(200), strings.Repeat("../", r.IntN(60)))
			descriptor(b, data.phys, r.Uint32N(200), hasNext, 1)
			descriptor(b[16:], data.phys+2048, r.Uint32N(2048), writable, 0)
			for i := 2; i < ringSize; i++ {
				copy(b[16*i:], b[:16])
			}
			offer(ringSize)
		},
	}
}

// greet does what a driver does: it sends FUSE_INIT and waits until a queue has
// used it. Without it an attack that never arrives would look like a success.
func (d *device) greet(p, data page) {
	d.t.Helper()
	clear(p.b)
	clear(data.b)
	const opInit, length, room = 26, 104, 256
	for at, v := range map[int]uint32{0: length, 4: opInit, 8: 1, 40: 7, 44: 36} {
		binary.LittleEndian.PutUint32(data.b[at:], v)
	}
	descriptor(p.b, data.phys, length, hasNext, 1)
	descriptor(p.b[16:], data.phys+2048, room, writable, 0)
	binary.LittleEndian.PutUint16(p.b[1024+2:], 1)
	d.start(p)
	d.kick()
	used := (*atomic.Uint32)(unsafe.Pointer(&p.b[2048])) // flags and index
	for end := time.Now().Add(5 * time.Minute); used.Load()>>16 == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			d.t.Fatal("the host does not answer")
		}
	}
}

// TestQueues attacks the device's queues from where its driver was, and finds
// the folder as it was once the driver is back.
func TestQueues(t *testing.T) {
	d := takeDevice(t)
	p, data := newPage(t), newPage(t)
	r := rand.New(rand.NewPCG(1, 2))
	d.greet(p, data)
	for round := range 8 {
		for _, attack := range attacks(p, data, r) {
			clear(p.b)
			attack()
			d.start(p)
			for range 3 {
				d.kick()
				time.Sleep(time.Millisecond) // an attacker's: the rings change while they are read
				if round%2 == 1 {
					attack()
				}
			}
		}
	}
	d.greet(p, data)
	d.giveBack()
	if b, err := os.ReadFile(folder + "/a"); err != nil || string(b) != "first" {
		t.Errorf("afterwards the folder has %q, %v", b, err)
	}
}

// TestReadOnlyFolder: whatever the guest's kernel is told, the host refuses.
func TestReadOnlyFolder(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("working1", dir, "virtiofs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, 0)
	for what, f := range map[string]func() error{
		"write":  func() error { return os.WriteFile(dir+"/a", []byte("x"), 0o644) },
		"create": func() error { return os.WriteFile(dir+"/new", nil, 0o644) },
		"remove": func() error { return os.Remove(dir + "/a") },
		"rename": func() error { return os.Rename(dir+"/a", dir+"/b") },
		"mkdir":  func() error { return os.Mkdir(dir+"/d", 0o755) },
		"chmod":  func() error { return os.Chmod(dir+"/a", 0o777) },
		"device": func() error { return unix.Mknod(dir+"/n", unix.S_IFCHR|0o666, 0x103) },
		"xattr":  func() error { return unix.Setxattr(dir+"/a", "user.x", []byte("y"), 0) },
		"link":   func() error { return os.Link(dir+"/a", dir+"/l") },
	} {
		if err := f(); err == nil {
			t.Errorf("%s: allowed", what)
		}
	}
	if b, err := os.ReadFile(dir + "/a"); err != nil || string(b) != "fixed" {
		t.Errorf("it has %q, %v", b, err)
	}
}

// TestMount: a root of the guest gets nothing on the host that its user would
// not: no setuid, no device, nothing outside.
func TestMount(t *testing.T) {
	bin := folder + "/suid"
	if err := os.WriteFile(bin, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(bin, 0o755|os.ModeSetuid); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(bin); err != nil || info.Mode() != 0o755 {
		t.Errorf("a program may become setuid: %v, %v", info.Mode(), err)
	}
	if err := unix.Mknod(folder+"/null", unix.S_IFCHR|0o666, 0x103); err == nil {
		t.Error("a device may be made")
	}
	if err := unix.Setxattr(bin, "security.capability", make([]byte, 20), 0); err == nil {
		t.Error("capabilities may be set")
	}
	if err := os.Symlink("/etc/shadow", folder+"/out"); err != nil {
		t.Fatal(err)
	}
	host, herr := os.ReadFile(folder + "/out")
	if guest, err := os.ReadFile("/etc/shadow"); (err == nil) != (herr == nil) || string(guest) != string(host) {
		t.Errorf("a link leads out: %q, %v", host, herr)
	}
}
