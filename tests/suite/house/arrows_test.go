package house

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// rooms are the top-level folders, from the top floor down, and the rooms that each may use. Tests may use all.
var rooms = []struct {
	name string
	uses []string
}{
	{"cmd", []string{"actors", "fsbridge", "guest", "hypervisor", "messages"}},
	{"actors", []string{"fsbridge", "hypervisor", "messages", "supervision"}},
	{"supervision", []string{"messages"}},
	{"messages", nil},
	{"fsbridge", []string{"messages"}},
	{"hypervisor", []string{"guest", "messages"}},
	{"guest", nil},
}

// bridges are the packages that serve a folder.
const bridges = `fsbridge/(fuse|virtiofs|ninep|mediate|vfs|fuseproto|guestcache)\b`

// arrow is a use that is forbidden: by the packages that match from, of those that match to, but for those that match except.
type arrow struct{ from, to, except, why string }

// forbidden are the arrows within rooms that matter.
var forbidden = []arrow{
	{`^fsbridge/(hostfs|texts|shellquote|readonly)\b`, `.`, `^fsbridge/hostfs/posix$`, "it stands at the bottom"},
	{`^fsbridge/undolog`, bridges, ``, "the log knows no bridge"},
	{bridges, `^fsbridge/undolog`, ``, "a bridge reaches the log through its Interceptor"},
	{`^fsbridge/vfs`, `^fsbridge/(fuse|virtiofs|ninep|mediate|fuseproto)\b`, ``, "the tree knows no transport"},
	{`^fsbridge/fuse$`, `^fsbridge/(virtiofs|ninep|mediate)\b`, ``, "transports do not know each other"},
	{`^fsbridge/virtiofs$`, `^fsbridge/(fuse|ninep|mediate)$`, ``, "transports do not know each other"},
	{`^fsbridge/ninep$`, `^fsbridge/(fuse|virtiofs|mediate)$`, ``, "transports do not know each other"},
	{`^fsbridge/mediate`, `^fsbridge/(fuse|virtiofs|ninep)$`, ``, "transports do not know each other"},
	{`^(fsbridge|hypervisor)\b`, `^messages\b`, `^messages/lexical$`, "below the actors only the comparison of paths is shared"},
	{`^messages/lexical$`, `.`, ``, "every room uses it"},
	{`^actors/.`, `^actors$`, ``, "what it composes does not know the composition"},
	{`^actors/api$`, `^actors/`, ``, "the facade knows no actor"},
	{`^actors/frontend`, `^actors/`, `^actors/(api|frontend)`, "a frontend knows the facade and other frontends' means"},
	{`^actors/frontend/web$`, `.`, ``, "it knows no protocol and no session"},
	{`^hypervisor$|^hypervisor/network`, `^hypervisor/`, `^hypervisor/network`, "it knows no runtime"},
	{`^hypervisor/(none|qemu)$`, `^hypervisor/(none|qemu|jail|confine)`, ``, "runtimes do not know each other"},
	{`^hypervisor/jail`, `^hypervisor/(none|qemu|confine)`, ``, "runtimes do not know each other"},
	{`^cmd/sandbox/internal/(shortcut|stamp|stepline)$`, `.`, `^cmd/sandbox/internal/(stamp|stepline)$|^hypervisor/inherit$|^fsbridge/shellquote$`,
		"it is initialised before all else"},
	{`^hypervisor/inherit$`, `.`, ``, "the shortcut uses it"},
	{`^cmd/sandbox/internal/`, `^cmd/sandbox$`, ``, "nothing imports commands"},
}

// check compares the imports with the rooms and the arrows.
func check(packages []pack) (wrong []string) {
	complain := func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }
	for _, p := range packages {
		from := room(p.path)
		if from == "tests" || from == "." {
			continue
		}
		at := slices.IndexFunc(rooms, func(r struct {
			name string
			uses []string
		}) bool {
			return r.name == from
		})
		if at < 0 {
			complain("%s: a top-level folder without a room", p.path)
			continue
		}
		for _, to := range p.imports {
			if r := room(to); r != from && !slices.Contains(rooms[at].uses, r) {
				complain("%s imports %s: %s may use only %s", p.path, to, from, strings.Join(rooms[at].uses, ", "))
			}
			for _, a := range forbidden {
				if matches(a.from, p.path) && matches(a.to, to) && (a.except == "" || !matches(a.except, to)) {
					complain("%s imports %s: %s", p.path, to, a.why)
				}
			}
		}
	}
	return wrong
}

func matches(pattern, path string) bool { return regexp.MustCompile(pattern).MatchString(path) }

// room is the top-level folder of a package.
func room(pkg string) string {
	name, _, _ := strings.Cut(pkg, "/")
	return name
}
