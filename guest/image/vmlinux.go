package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// errNoVmlinux says that a kernel image is not one that can be taken apart; it
// is booted as it is then.
var errNoVmlinux = errors.New("image: no vmlinux in it")

// vmlinux takes the ELF kernel out of an x86 bzImage. The places are those of
// the kernel's boot protocol (Documentation/arch/x86/boot.rst, 2.08 and later):
// setup_sects at 0x1f1, the magic "HdrS" at 0x202, payload_offset and
// payload_length at 0x248.
func vmlinux(bz []byte) ([]byte, error) {
	if len(bz) < 0x250 || string(bz[0x202:0x206]) != "HdrS" || binary.LittleEndian.Uint16(bz[0x206:]) < 0x208 {
		return nil, errNoVmlinux
	}
	sectors := int64(bz[0x1f1])
	if sectors == 0 {
		sectors = 4
	}
	begin := (sectors+1)*512 + int64(binary.LittleEndian.Uint32(bz[0x248:]))
	length := int64(binary.LittleEndian.Uint32(bz[0x24c:]))
	if length < 8 || begin+length > int64(len(bz)) {
		return nil, errNoVmlinux
	}
	payload := bz[begin : begin+length]
	var suffix string
	switch {
	case bytes.HasPrefix(payload, []byte("\xfd7zXZ\x00")):
		suffix = ".xz"
	case bytes.HasPrefix(payload, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		suffix = ".zst"
	case bytes.HasPrefix(payload, []byte{0x1f, 0x8b}):
		suffix = ".gz"
	case bytes.HasPrefix(payload, []byte{0x02, 0x21, 0x4c, 0x18}): // its older frame
		suffix = ".lz4"
	default:
		return nil, errNoVmlinux
	}
	// The payload ends with the size of what is in it.
	size := int64(binary.LittleEndian.Uint32(payload[length-4:]))
	if size > maxMember {
		return nil, errNoVmlinux
	}
	z, err := decompress(suffix, bytes.NewReader(payload[:length-4]))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	kernel := make([]byte, size)
	if n, err := readFull(z, kernel); err != nil {
		return nil, fmt.Errorf("%w: %d of %d bytes: %w", errNoVmlinux, n, size, err)
	}
	if !bootsByPVH(kernel) {
		return nil, errNoVmlinux
	}
	return kernel, nil
}

// readFull is io.ReadFull that ignores what a decompressor says about the
// trailing bytes once it has given all that was asked for.
func readFull(r interface{ Read([]byte) (int, error) }, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = r.Read(p[n:])
		n += k
	}
	if n == len(p) {
		return n, nil
	}
	return n, err
}

// bootsByPVH looks for the ELF note by which QEMU finds the entry
// (XEN_ELFNOTE_PHYS32_ENTRY, type 18 of "Xen").
func bootsByPVH(kernel []byte) bool {
	f, err := elf.NewFile(bytes.NewReader(kernel))
	if err != nil {
		return false
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > 1<<20 {
			continue
		}
		notes := make([]byte, p.Filesz)
		if _, err := p.ReadAt(notes, 0); err != nil {
			return false
		}
		for len(notes) >= 12 {
			nameSize := int64(f.ByteOrder.Uint32(notes))
			descSize := int64(f.ByteOrder.Uint32(notes[4:]))
			kind := f.ByteOrder.Uint32(notes[8:])
			next := 12 + (nameSize+3)&^3 + (descSize+3)&^3
			if next > int64(len(notes)) {
				break
			}
			if kind == 18 && nameSize == 4 && string(notes[12:15]) == "Xen" {
				return true
			}
			notes = notes[next:]
		}
	}
	return false
}
