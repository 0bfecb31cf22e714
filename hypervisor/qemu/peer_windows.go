package qemu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"unsafe"

	"golang.org/x/sys/windows"
)

// fromProcess returns an error unless the other side of a connection over the loopback is the process pid. Wine's table has its own programs
// alone; there a connection that is not in it passes, since a QEMU for Linux has made it.
func fromProcess(c net.Conn, pid int) error {
	local, ok := c.LocalAddr().(*net.TCPAddr)
	remote, also := c.RemoteAddr().(*net.TCPAddr)
	if !ok || !also {
		return errors.New("no connection over the loopback")
	}
	table, err := connections()
	if err != nil {
		return err
	}
	for _, row := range table {
		if row.local == remote.AddrPort().String() && row.remote == local.AddrPort().String() && row.state == established {
			if row.pid == uint32(pid) {
				return nil
			}
			return fmt.Errorf("process %d", row.pid)
		}
	}
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil {
		return nil
	}
	return errors.New("a process that has ended")
}

// established is MIB_TCP_STATE_ESTAB.
const established = 5

// connection is one row of the system's table, as its owner sees it.
type connection struct {
	local, remote string // address:port
	state, pid    uint32
}

// connections returns the connections over IPv4 of all processes (GetExtendedTcpTable, TCP_TABLE_OWNER_PID_ALL).
func connections() ([]connection, error) {
	const (
		ownerPIDAll = 5
		rowSize     = 24
	)
	get := windows.NewLazySystemDLL("iphlpapi.dll").NewProc("GetExtendedTcpTable")
	if err := get.Find(); err != nil {
		return nil, err
	}
	size := uint32(1 << 14)
	for range 16 { // it may grow meanwhile
		b := make([]byte, size)
		code, _, _ := get.Call(uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&size)), 0, windows.AF_INET, ownerPIDAll, 0)
		switch err := windows.Errno(code); err {
		case windows.ERROR_INSUFFICIENT_BUFFER:
			size += size / 4
			continue
		case windows.ERROR_SUCCESS:
		default:
			return nil, fmt.Errorf("the system's table of connections: %w", err)
		}
		rows := make([]connection, 0, 64)
		count := binary.LittleEndian.Uint32(b)
		for b = b[4:]; count > 0 && len(b) >= rowSize; count-- {
			word := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
			at := func(i int) string { // the port is in the network's order
				return fmt.Sprintf("%d.%d.%d.%d:%d", b[4*i], b[4*i+1], b[4*i+2], b[4*i+3], binary.BigEndian.Uint16(b[4*i+4:]))
			}
			rows = append(rows, connection{state: word(0), local: at(1), remote: at(3), pid: word(5)})
			b = b[rowSize:]
		}
		return rows, nil
	}
	return nil, errors.New("the system's table of connections grows and grows")
}
