package ends

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

const (
	downloadBytes = 512 << 20 // that a client reads in one connection
	connections   = 100       // how often it connects

	// Many is how many clients run at once.
	Many = 200
)

// The first byte of a client says what the server does.
const (
	sendsToUs = 1
	takesOurs = 2 // and answers with a byte
)

// Run is the server ("serve"); a client ("fetch ADDRESS"), which prints the
// nanoseconds that the download took, the processor time of it, and the median time
// of a connection; one that uploads as much ("send ADDRESS") and prints what that took; or
// many at once ("many ADDRESS"), of which each downloads its part of that.
func Run(args []string, out io.Writer, used func() time.Duration) error {
	switch args[0] {
	case "serve":
		return serveBytes(out)
	case "send":
		took, err := upload(args[1])
		if err == nil {
			_, err = fmt.Fprintln(out, int64(took))
		}
		return err
	case "many":
		return fetchMany(args[1])
	}
	var each []time.Duration
	for range connections {
		start := time.Now()
		c, err := net.Dial("tcp", args[1])
		if err != nil {
			return err
		}
		each = append(each, time.Since(start))
		c.Close()
	}
	c, err := net.Dial("tcp", args[1])
	if err != nil {
		return err
	}
	defer c.Close()
	before, start := used(), time.Now()
	if err := download(c, downloadBytes); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, int64(time.Since(start)), int64(used()-before), int64(report.Median(each)))
	return err
}

func download(c net.Conn, size int) error {
	buf := make([]byte, 1<<20)
	if _, err := c.Write([]byte{sendsToUs}); err != nil {
		return err
	}
	for left := size; left > 0; {
		n, err := c.Read(buf)
		if err != nil {
			return fmt.Errorf("%d bytes before the end: %w", left, err)
		}
		left -= n
	}
	return nil
}

// upload returns how long it takes until the server has everything.
func upload(address string) (time.Duration, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	buf := make([]byte, 1<<20)
	start := time.Now()
	if _, err := c.Write([]byte{takesOurs}); err != nil {
		return 0, err
	}
	for left := downloadBytes; left > 0; left -= len(buf) {
		if _, err := c.Write(buf); err != nil {
			return 0, err
		}
	}
	err = c.(*net.TCPConn).CloseWrite()
	_, rerr := io.ReadFull(c, buf[:1])
	return time.Since(start), errors.Join(err, rerr)
}

// fetchMany downloads over many connections, all of which are open before the first byte.
func fetchMany(address string) error {
	var open []net.Conn
	for range Many {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		defer c.Close()
		open = append(open, c)
	}
	failed := make(chan error, len(open))
	for _, c := range open {
		go func() { failed <- download(c, downloadBytes/len(open)) }()
	}
	var err error
	for range open {
		err = errors.Join(err, <-failed)
	}
	return err
}

// serveBytes sends zeros to each client, or takes what it sends.
func serveBytes(out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, l.Addr().(*net.TCPAddr).Port); err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 1<<20)
			if _, err := c.Read(buf[:1]); err != nil {
				return
			}
			if buf[0] == takesOurs {
				_, _ = io.Copy(io.Discard, c)
				_, _ = c.Write(buf[:1])
				return
			}
			for err == nil {
				_, err = c.Write(buf)
			}
		}()
	}
}
