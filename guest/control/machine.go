package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
)

// PortName is the virtio-serial port on which a machine's control channel is,
// as /sys/class/virtio-ports/*/name has it.
const PortName = "sandbox.control"

// The cable over which a machine without vhost-user reaches its folders: a network
// device of this address, and TCP ports, one for each folder in their order.
const (
	CableMAC   = "52:55:0a:09:50:02" // of the guest's end
	CableMTU   = 65520
	CableHost  = "169.254.80.1/30"
	CableGuest = "169.254.80.2/30"
	CablePort  = 564 // of the first folder
)

// CardMAC is the ethernet address of a machine's network card.
const CardMAC = "52:54:00:12:34:56"

// Serial numbers of a machine's disks, as /sys/block/*/serial has them.
const (
	RootFSSerial = "rootfs"
	DiskSerial   = "persistent"
)

// MachinePlan is the first line that a virtual machine's host sends: what its
// init has to set up before it says hello.
type MachinePlan struct {
	Version  int            `json:"version"`
	Hostname string         `json:"hostname"`
	TimeNS   int64          `json:"time_ns"` // since 1970, for the guest's clock
	UID      int            `json:"uid"`     // of the ordinary user that commands run as
	GID      int            `json:"gid"`
	Umask    int            `json:"umask"`
	Env      []Text         `json:"env"` // of commands that bring none
	Shares   []MachineShare `json:"shares"`
	RootFS   bool           `json:"rootfs,omitempty"` // the system is on a disk, which is read-only
	Disk     bool           `json:"disk,omitempty"`   // what the guest writes goes to a disk that outlives it
	// Network is nil for a machine without a network card.
	Network *MachineNetwork `json:"network,omitempty"`
}

// MachineNetwork is how the guest sets up its network card. Addresses are IPv4
// and no net/netip ones: that package costs every jail's start, which has the
// same program inside.
type MachineNetwork struct {
	Address [4]byte `json:"address"`
	Bits    int     `json:"bits"` // of its subnet
	Gateway [4]byte `json:"gateway"`
	MTU     int     `json:"mtu"`
	// ResolvConf is its /etc/resolv.conf.
	ResolvConf string `json:"resolv_conf"`
	// IPv6 is nil for a machine without.
	IPv6 *MachineIPv6 `json:"ipv6,omitempty"`
	// Trust is added to the certificates that the guest's programs trust, as PEM. All
	// together are in the file [TrustFile], and where the guest has such a file.
	Trust string `json:"trust,omitempty"`
}

// MachineIPv6 is what the guest's network card has of IPv6. Nobody answers who asks for the
// gateway's ethernet address.
type MachineIPv6 struct {
	Address    [16]byte `json:"address"`
	Bits       int      `json:"bits"` // of its subnet
	Gateway    [16]byte `json:"gateway"`
	GatewayMAC [6]byte  `json:"gateway_mac"`
}

// TrustFile is where a machine's programs find the certificates that they are to trust, if
// [MachineNetwork].Trust adds some.
const TrustFile = "/run/sandbox-certificates.crt"

// TrustBundles are where distributions keep the certificates that programs trust; a machine has one of them, or none.
func TrustBundles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt", // Debian, Arch, Alpine, Nix
		"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora, RHEL
		"/etc/ssl/ca-bundle.pem",             // openSUSE
		"/etc/ssl/cert.pem",                  // others
	}
}

func (n *MachineNetwork) check() error {
	if n == nil {
		return nil
	}
	if v := n.IPv6; v != nil && (v.Bits < 1 || v.Bits > 126 || n.MTU < 1280) {
		return fmt.Errorf("%w: plan: network %v/%d, MTU %d", ErrMalformed, v.Address, v.Bits, n.MTU)
	}
	if n.Bits < 1 || n.Bits > 30 || n.MTU < 576 || n.MTU > 65535 {
		return fmt.Errorf("%w: plan: network %v/%d, MTU %d", ErrMalformed, n.Address, n.Bits, n.MTU)
	}
	return nil
}

// MachineShare is one working folder: a virtio-fs device, or 9P over the cable,
// and where it is mounted.
type MachineShare struct {
	Tag      string `json:"tag"` // the device's
	Path     Text   `json:"path"`
	NineP    bool   `json:"9p,omitempty"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Send writes the plan as a line.
func (p MachinePlan) Send(w io.Writer) error {
	p.Version = Version
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if len(line) > MaxMessage {
		return ErrTooLarge
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// ReadMachinePlan reads the line, byte by byte: what follows it belongs to the
// channel.
func ReadMachinePlan(r io.Reader) (MachinePlan, error) {
	var p MachinePlan
	line, err := readLineExactly(r)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(line, &p); err != nil {
		return p, fmt.Errorf("%w: plan: %w", ErrMalformed, err)
	}
	if p.Version != Version {
		return p, fmt.Errorf("control: the host speaks version %d, we speak %d", p.Version, Version)
	}
	for _, s := range p.Shares {
		if s.Tag == "" || !path.IsAbs(string(s.Path)) || string(s.Path) != path.Clean(string(s.Path)) || s.Path == "/" {
			return p, fmt.Errorf("%w: plan: share %q at %q", ErrMalformed, s.Tag, s.Path)
		}
	}
	if p.UID <= 0 || p.GID <= 0 {
		return p, fmt.Errorf("%w: plan: commands would run as root", ErrMalformed)
	}
	return p, p.Network.check()
}

func readLineExactly(r io.Reader) ([]byte, error) {
	br, ok := r.(io.ByteReader)
	if !ok {
		br = bufio.NewReaderSize(oneByte{r}, 16)
	}
	var line []byte
	for {
		c, err := br.ReadByte()
		if errors.Is(err, io.EOF) && len(line) > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if c == '\n' {
			return line, nil
		}
		if line = append(line, c); len(line) > MaxMessage {
			return nil, ErrTooLarge
		}
	}
}

// oneByte keeps a buffered reader from reading ahead.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }
