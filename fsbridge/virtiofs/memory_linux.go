package virtiofs

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"

	"golang.org/x/sys/unix"
)

// maxRegions is how many pieces the guest's memory may come in.
const maxRegions = 32

// maxRegionBytes bounds one region: an address space is not unlimited.
const maxRegionBytes = 1 << 42

// region is a piece of the guest's memory, mapped here.
type region struct {
	guest, user uint64 // its addresses: in the guest, in the front-end
	data        []byte
	mapping     []byte // data and what was mapped around it
}

// memory is all of the guest's memory. It changes only while nobody uses it.
type memory struct {
	regions []region // sorted by guest address, without overlaps
}

// regionSpec is a region as the front-end describes it.
type regionSpec struct {
	guest, size, user, offset uint64
}

// overlaps tells whether [a, a+alen) and [b, b+blen) share a byte. The sums do
// not overflow.
func overlaps(a, alen, b, blen uint64) bool { return a < b+blen && b < a+alen }

// add maps a region of the file fd, which stays the caller's.
func (m *memory) add(s regionSpec, fd int) error {
	if len(m.regions) >= maxRegions {
		return fmt.Errorf("more than %d memory regions", maxRegions)
	}
	if s.size == 0 || s.size > maxRegionBytes || s.guest+s.size < s.guest || s.user+s.size < s.user || s.offset > 1<<62 {
		return fmt.Errorf("memory region [%#x, +%#x) at %#x, offset %#x: out of range", s.guest, s.size, s.user, s.offset)
	}
	for i := range m.regions {
		r := &m.regions[i]
		n := uint64(len(r.data))
		if overlaps(s.guest, s.size, r.guest, n) || overlaps(s.user, s.size, r.user, n) {
			return fmt.Errorf("memory region [%#x, +%#x) at %#x overlaps another", s.guest, s.size, s.user)
		}
	}
	r := region{guest: s.guest, user: s.user}
	if err := r.mmap(fd, s); err != nil {
		return err
	}
	at, _ := slices.BinarySearchFunc(m.regions, s.guest, func(r region, a uint64) int {
		if r.guest < a {
			return -1
		}
		return 1
	})
	m.regions = slices.Insert(m.regions, at, r)
	return nil
}

// hugetlbfsMagic is the type of file systems whose mappings have large pages.
const hugetlbfsMagic = 0x958458f6

func (r *region) mmap(fd int, s regionSpec) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat a memory file: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || s.offset+s.size > uint64(st.Size) {
		return fmt.Errorf("memory region of %#x bytes at %#x in a file of %#x (mode %o)", s.size, s.offset, st.Size, st.Mode)
	}
	page := uint64(os.Getpagesize())
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) == nil && uint32(fs.Type) == hugetlbfsMagic && fs.Bsize > 0 {
		page = uint64(fs.Bsize)
	}
	start := s.offset / page * page
	length := (s.offset - start + s.size + page - 1) / page * page
	mapping, err := unix.Mmap(fd, int64(start), int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("map a memory region of %#x bytes: %w", s.size, err)
	}
	// The guest's memory is no part of our core dumps.
	_ = unix.Madvise(mapping, unix.MADV_DONTDUMP)
	r.mapping = mapping
	r.data = mapping[s.offset-start:][:s.size:s.size]
	return nil
}

// remove unmaps the region that s names.
func (m *memory) remove(s regionSpec) error {
	for i, r := range m.regions {
		if r.guest == s.guest && r.user == s.user && uint64(len(r.data)) == s.size {
			m.regions = slices.Delete(m.regions, i, i+1)
			return unix.Munmap(r.mapping)
		}
	}
	return fmt.Errorf("no memory region [%#x, +%#x) at %#x", s.guest, s.size, s.user)
}

// clear unmaps everything.
func (m *memory) clear() {
	for _, r := range m.regions {
		_ = unix.Munmap(r.mapping)
	}
	m.regions = nil
}

// at returns the memory at a guest address, as far as it is in one piece, n
// bytes at most; nil where there is none.
func (m *memory) at(guest uint64, n uint64) []byte {
	for i := range m.regions {
		r := &m.regions[i]
		if off := guest - r.guest; guest >= r.guest && off < uint64(len(r.data)) {
			return r.data[off:][:min(n, uint64(len(r.data))-off)]
		}
	}
	return nil
}

// user returns n bytes at an address of the front-end's, nil unless they are
// in one region.
func (m *memory) user(addr uint64, n int) []byte {
	for i := range m.regions {
		r := &m.regions[i]
		if off := addr - r.user; addr >= r.user && off < uint64(len(r.data)) {
			if uint64(n) > uint64(len(r.data))-off {
				return nil
			}
			return r.data[off:][:n:n]
		}
	}
	return nil
}

// errAddress: the guest named memory that it does not have.
var errAddress = errors.New("address outside of the guest's memory")

// covers tells whether all of s is memory.
func (m *memory) covers(s segment) bool {
	for s.length > 0 {
		n := uint32(len(m.at(s.addr, uint64(s.length))))
		if n == 0 {
			return false
		}
		s = s.skip(n)
	}
	return true
}

// read copies the segments to buf, which is as long as they are or shorter.
func (m *memory) read(buf []byte, from []segment) error {
	return m.each(from, len(buf), func(at int, b []byte) { copy(buf[at:], b) })
}

// write copies buf to the segments, which are as long or longer.
func (m *memory) write(to []segment, buf []byte) error {
	return m.each(to, len(buf), func(at int, b []byte) { copy(b, buf[at:]) })
}

// each calls f for every piece of the first total bytes of the segments.
func (m *memory) each(segments []segment, total int, f func(at int, b []byte)) error {
	at := 0
	for _, s := range segments {
		for s.length > 0 && at < total {
			b := m.at(s.addr, min(uint64(s.length), uint64(total-at)))
			if len(b) == 0 {
				return errAddress
			}
			f(at, b)
			at += len(b)
			s = s.skip(uint32(len(b)))
		}
	}
	if at < total {
		return errAddress
	}
	return nil
}

// pieces returns the n bytes from off on of the segments, if they are that long.
func (m *memory) pieces(segments []segment, off, n int) (list [][]byte, ok bool) {
	for _, s := range segments {
		skip := uint32(min(off, int(s.length)))
		s, off = s.skip(skip), off-int(skip)
		for s.length > 0 && n > 0 {
			b := m.at(s.addr, min(uint64(s.length), uint64(n)))
			if len(b) == 0 {
				return nil, false
			}
			list = append(list, b)
			n -= len(b)
			s = s.skip(uint32(len(b)))
		}
	}
	return list, off == 0 && n == 0
}

// segment is a range of the guest's memory.
type segment struct {
	addr   uint64
	length uint32
}

func (s segment) skip(n uint32) segment { return segment{s.addr + uint64(n), s.length - n} }

// errFault: the file behind the guest's memory is shorter than it was.
var errFault = errors.New("the guest's memory is gone")

// guarded runs f, which touches guest memory. A fault becomes an error, and so
// does any panic: no guest may take the host down.
func guarded(f func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		switch p := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			err = fmt.Errorf("%w (fault at %#x)", errFault, p.Addr())
		default:
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}
