package network

import (
	"fmt"
	"io"
	"net"
	"testing"
)

// BenchmarkTCP measures one connection, in both directions by itself. The guest's
// stack runs in this process too and does as much work as ours.
func BenchmarkTCP(b *testing.B) {
	const chunk = 1 << 20
	for _, mtu := range []int{1500, 9000, 65520} {
		b.Run(fmt.Sprintf("up/mtu=%d", mtu), func(b *testing.B) {
			l, at := listen(b, "127.0.0.1:0")
			got := make(chan int64, 1)
			onAccept(b, l, func(c *net.TCPConn) { n, _ := io.Copy(io.Discard, c); got <- n })
			g := boot(b, loopback(b), Options{MTU: mtu})
			c := g.mustDial(g.host(at.Port()))
			data := make([]byte, chunk)
			b.SetBytes(chunk)
			for b.Loop() {
				if _, err := c.Write(data); err != nil {
					b.Fatal(err)
				}
			}
			_ = c.CloseWrite()
			if n := <-got; n != int64(b.N)*chunk {
				b.Fatalf("%d bytes arrived of %d", n, b.N*chunk)
			}
		})
		b.Run(fmt.Sprintf("down/mtu=%d", mtu), func(b *testing.B) {
			l, at := listen(b, "127.0.0.1:0")
			onAccept(b, l, func(c *net.TCPConn) {
				data := make([]byte, chunk)
				for {
					if _, err := c.Write(data); err != nil {
						return
					}
				}
			})
			g := boot(b, loopback(b), Options{MTU: mtu})
			c := g.mustDial(g.host(at.Port()))
			data := make([]byte, chunk)
			b.SetBytes(chunk)
			for b.Loop() {
				if _, err := io.ReadFull(c, data); err != nil {
					b.Fatal(err)
				}
			}
			c.abort()
		})
	}
}

// BenchmarkConnect measures a connection from SYN to end.
func BenchmarkConnect(b *testing.B) {
	at := echoServer(b, "127.0.0.1:0")
	g := boot(b, loopback(b), Options{Limits: Limits{NewFlows: 1 << 20}})
	for b.Loop() {
		c, err := g.dial(within(b), g.host(at.Port()))
		if err != nil {
			b.Fatal(err)
		}
		c.abort()
	}
}
