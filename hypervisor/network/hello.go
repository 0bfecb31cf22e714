package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// maxHello bounds what is read before a TLS client has named its server; more
// than that is no greeting of a program's, though servers take larger ones.
const maxHello = 64 << 10

var errServerName = errors.New("network: denied by the server name")

// forwardHello passes on what the guest says first. If that is TLS's greeting, it
// waits until the name of the server is there and asks the policy: the address
// may be shared by names that nobody allowed.
func (n *Network) forwardHello(outside io.Writer, guest net.Conn, flow *policy.Flow, t policy.Target, v policy.Verdict) error {
	var head []byte
	chunk := make([]byte, 4<<10)
	for {
		got, err := guest.Read(chunk)
		head = append(head, chunk[:got]...)
		name, state := serverName(head)
		if state == helloNamed {
			if v = n.o.Policy.ServerName(v, t, name); !v.Allowed() {
				flow.Overrule(v)
				return fmt.Errorf("%w: %s", errServerName, v.Domain)
			}
		}
		if state == helloPartial && len(head) > maxHello {
			v.Action, v.Rule = policy.Deny, "a TLS greeting that is too long"
			flow.Overrule(v)
			return errServerName
		}
		if state != helloPartial || err != nil {
			put, werr := outside.Write(head)
			flow.Sent(put)
			if err == nil || errors.Is(err, io.EOF) { // the copying that follows meets the end again
				err = werr
			}
			return err
		}
	}
}

// helloState is what is known of the beginning of a stream.
type helloState int

const (
	helloOther   helloState = iota // not TLS, or without a name
	helloPartial                   // more is to come
	helloNamed
)

// Types of TLS's records.
const (
	recordChange    = 20
	recordAlert     = 21
	recordHandshake = 22
)

// serverName finds the server's name in the beginning of a TLS stream (RFC 8446,
// 4.1.2; RFC 6066, 3).
func serverName(b []byte) (string, helloState) {
	// The handshake may be spread over records. Servers pass over warnings and
	// records without content, so they are passed over here.
	var hello []byte
	for whole := false; !whole; {
		if len(b) > 0 && b[0] != recordHandshake && b[0] != recordAlert && b[0] != recordChange {
			return "", helloOther
		}
		if len(b) < 5 {
			return "", helloPartial
		}
		size := int(binary.BigEndian.Uint16(b[3:]))
		if b[1] != 3 || b[0] != recordHandshake && size > 2 {
			return "", helloOther
		}
		if b[0] != recordHandshake {
			if len(b) < 5+size {
				return "", helloPartial
			}
			b = b[5+size:]
			continue
		}
		hello = append(hello, b[5:min(len(b), 5+size)]...)
		if len(hello) > 0 && hello[0] != 1 { // client hello
			return "", helloOther
		}
		whole = len(hello) >= 4 && len(hello) >= 4+uint24(hello[1:])
		if !whole && len(b) < 5+size {
			return "", helloPartial
		}
		b = b[min(len(b), 5+size):]
	}
	r := &field{b: hello[4 : 4+uint24(hello[1:])]}
	r.take(2 + 32) // version, random
	r.vector(1)    // session
	r.vector(2)    // ciphers
	r.vector(1)    // compressions
	extensions := &field{b: r.vector(2)}
	for !r.short && len(extensions.b) > 0 && !extensions.short {
		kind := extensions.take(2)
		data := &field{b: extensions.vector(2)}
		if extensions.short || binary.BigEndian.Uint16(kind) != 0 {
			continue
		}
		// Some servers look for the first that is a host's.
		for names := (&field{b: data.vector(2)}); len(names.b) > 0; {
			nameType := names.take(1)[0]
			if name := names.vector(2); !names.short && nameType == 0 && len(name) > 0 {
				return string(name), helloNamed
			}
			if names.short {
				break
			}
		}
		break
	}
	return "", helloOther
}

func uint24(b []byte) int { return int(b[0])<<16 | int(b[1])<<8 | int(b[2]) }

// field is read from the front; short tells that there was less than asked for.
type field struct {
	b     []byte
	short bool
}

func (f *field) take(n int) []byte {
	if f.short || len(f.b) < n {
		f.short = true
		return make([]byte, n)
	}
	part := f.b[:n]
	f.b = f.b[n:]
	return part
}

// vector takes a length of n bytes and as many bytes as it says.
func (f *field) vector(n int) []byte {
	size := 0
	for _, c := range f.take(n) {
		size = size<<8 | int(c)
	}
	return f.take(size)
}
