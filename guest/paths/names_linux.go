package paths

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
)

// maxNames bounds how much of a table of names is read, in bytes.
const maxNames = 1 << 20

// names are the names of users and groups, read when they are first asked for.
type names struct{ users, groups map[uint32]string }

func (n *names) user(id uint32) Text {
	if n.users == nil {
		n.users = namesIn("/etc/passwd")
	}
	return nameOf(n.users, id)
}

func (n *names) group(id uint32) Text {
	if n.groups == nil {
		n.groups = namesIn("/etc/group")
	}
	return nameOf(n.groups, id)
}

func nameOf(names map[uint32]string, id uint32) Text {
	if name, ok := names[id]; ok {
		return Text(name)
	}
	return Text(strconv.FormatUint(uint64(id), 10))
}

func namesIn(file string) map[uint32]string {
	f, err := os.Open(file)
	if err != nil {
		return map[uint32]string{}
	}
	defer f.Close()
	return parseNames(io.LimitReader(f, maxNames))
}

// parseNames reads lines such as "name:x:id:...". The first name of a number counts.
func parseNames(in io.Reader) map[uint32]string {
	names := map[uint32]string{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		f := strings.SplitN(lines.Text(), ":", 4)
		if len(f) < 3 || f[0] == "" || len(f[0]) > 256 {
			continue
		}
		id, err := strconv.ParseUint(f[2], 10, 32)
		if err != nil {
			continue
		}
		if _, there := names[uint32(id)]; !there {
			names[uint32(id)] = f[0]
		}
	}
	return names
}
