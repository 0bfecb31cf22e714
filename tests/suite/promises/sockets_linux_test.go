package promises

import (
	"errors"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// listen binds sockets in several ways, as daemons do.
func (p *place) listen() {
	dir := p.Outside + "/dir"
	for _, s := range []string{dir + "/absolute", "@" + p.base} {
		l, err := net.Listen("unix", s)
		must(p.t, err)
		p.t.Cleanup(func() { l.Close() })
	}
	p.Sockets, p.Queue = []string{dir + "/absolute"}, "@"+p.base
	if require.SocketInodes() { // or they are known by their names alone
		p.elsewhere(dir)
		p.Sockets = append(p.Sockets, dir+"/relative", dir+"/renamed", dir+"/linked", p.Outside+"/moved", p.Work+"/bound", p.Work+"/nested/moved-in")
	}
	for _, m := range p.later() {
		p.bind(m.from)
		p.Sockets = append(p.Sockets, m.from, m.to)
	}
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	must(p.t, err)
	p.t.Cleanup(func() { tcp.Close() })
	p.TCP, p.Port = [4]byte{127, 0, 0, 1}, tcp.Addr().(*net.TCPAddr).Port
}

// bind binds a socket that everybody may connect to.
func (p *place) bind(name string) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(p.t, err)
	p.t.Cleanup(func() { _ = unix.Close(fd) })
	must(p.t, errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: name}), unix.Listen(fd, 5), os.Chmod(name, 0o777)))
}

// elsewhere binds sockets by names that do not say where they are, or that they do not have any more when the session starts.
func (p *place) elsewhere(dir string) {
	was, err := os.Getwd()
	must(p.t, err)
	p.t.Chdir(dir)
	p.bind("relative")
	p.t.Chdir(was)
	move := func(from, to string) {
		p.bind(from)
		must(p.t, os.Rename(from, to))
	}
	move(dir+"/first", dir+"/renamed")
	move(dir+"/third", p.Outside+"/moved") // out of the directory below which it was bound
	must(p.t, os.Mkdir(p.Work+"/nested", 0o755))
	move(p.base+"/daemons/fourth", p.Work+"/nested/moved-in")
	p.bind(p.Work + "/bound")
	p.bind(dir + "/second") // as OpenSSH does
	must(p.t, errors.Join(os.Link(dir+"/second", dir+"/linked"), os.Remove(dir+"/second")))
}

// move is a name that a socket is given while the session runs.
type move struct{ from, to string }

// later are those: another name there, and one in another directory. In a working folder a socket that comes later can be connected to, with the mediated bridge (docs/security.md).
func (p *place) later() []move {
	dir := p.base + "/daemons"
	return []move{{dir + "/renamed-later", dir + "/was-renamed"}, {dir + "/moved-later", p.base + "/second/was-moved"}}
}

// moveSockets gives them their new names. What was covered has to stay so.
func (p *place) moveSockets() {
	for _, m := range p.later() {
		must(p.t, errors.Join(os.MkdirAll(filepath.Dir(m.to), 0o755), os.Rename(m.from, m.to)))
	}
}
