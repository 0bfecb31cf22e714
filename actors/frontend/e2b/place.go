package e2b

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"os/user"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/web"
)

// place is a sandbox that runs, as envd sees it. Its methods are safe for concurrent use.
type place struct {
	live api.Live
	home string
	env  []string // of commands, without those of clients
	// started is called before something begins that may change files; what it returns is called when it has begun.
	started func() func()
	after   func(time.Duration, func()) (stop func() bool) // the clock's
	*watchers
	meter meter

	mu    sync.Mutex
	token string
	open  bool // a token is not needed
	added map[string]string
}

// newPlace makes the place of a session. added are variables of its commands.
func (s *Server) newPlace(live api.Live, added map[string]string) (*place, error) {
	st, err := live.Status(context.Background())
	if err != nil {
		return nil, err
	}
	if len(st.Directories) == 0 {
		return nil, fmt.Errorf("the session has no working folder")
	}
	p := &place{live: live, home: st.Directories[0].Path, watchers: newWatchers(), meter: meter{at: s.o.Clock.Now()}, started: func() func() { return func() {} }, after: s.o.Clock.AfterFunc}
	if p.env, err = frontend.Environ(s.o.Environ, map[string]string{"HOME": p.home, "E2B_SANDBOX": "true"}); err != nil {
		return nil, err
	}
	if added == nil {
		added = map[string]string{}
	}
	_, err = frontend.Environ(p.env, added)
	p.added = maps.Clone(added)
	return p, err
}

type placeKey struct{}

// placeOf is the place that a request is for.
func placeOf(r *http.Request) *place { return r.Context().Value(placeKey{}).(*place) }

// admit tells whether a request may do something here.
func (p *place) admit(r *http.Request) error {
	p.mu.Lock()
	token, open := p.token, p.open
	p.mu.Unlock()
	switch {
	case token == "" && open:
		return unguarded(r, true)
	case token == "":
		return wire.Fail(http.StatusUnauthorized, "this sandbox has no token yet: POST /init gives it one")
	case !same(r.Header.Get("X-Access-Token"), token):
		return wire.Fail(http.StatusUnauthorized, "the access token (X-Access-Token) is missing, or not this sandbox's")
	}
	return nil
}

// unguarded tells whether a request may do something for which no token is needed yet, and give the sandbox its first one: none that a web page can have made. open is a server that this machine alone reaches.
func unguarded(r *http.Request, open bool) error {
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" || open && !web.NamesThisMachine(r.Host) {
		return wire.Fail(http.StatusForbidden, "this server has no token, and answers no browser, and to names of this machine only")
	}
	return nil
}

// environ is the environment of a command.
func (p *place) environ(add map[string]string) ([]string, error) {
	all := p.variables()
	maps.Copy(all, add)
	env, err := frontend.Environ(p.env, all)
	if err != nil {
		return nil, wire.Fail(http.StatusBadRequest, "envs: %s", err)
	}
	return env, nil
}

// variables are those that clients have given all commands.
func (p *place) variables() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.added)
}

// path makes a path of a client absolute: it is relative to the folder, which is also the home directory.
func (p *place) path(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", wire.Fail(http.StatusBadRequest, "the path has a zero byte")
	}
	if name == "~" || strings.HasPrefix(name, "~/") {
		name = name[1:]
		return path.Join(p.home, name), nil
	}
	if path.IsAbs(name) {
		return path.Clean(name), nil
	}
	return path.Join(p.home, name), nil
}

// defaultUser is what E2B calls the user that commands run as.
const defaultUser = "user"

// checkUser refuses what cannot be had: there is one user.
func checkUser(name string) error {
	switch name {
	case "", defaultUser:
		return nil
	case "root":
		return wire.Fail(http.StatusForbidden, "there is no root in this sandbox: commands run without it, and sudo does not work; leave user out")
	}
	if u, err := user.Current(); err == nil && u.Username == name {
		return nil
	}
	return wire.Fail(http.StatusUnauthorized, "there is no user %q in this sandbox; leave user out", frontend.Short([]byte(name)))
}

// checkCaller looks at the user that a call names by its Authorization header.
func checkCaller(r *http.Request) error {
	basic, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Basic ")
	if !ok {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(basic)
	if err != nil {
		return wire.Fail(http.StatusBadRequest, "the Authorization header is not base64")
	}
	name, _, _ := strings.Cut(string(b), ":")
	return checkUser(name)
}
