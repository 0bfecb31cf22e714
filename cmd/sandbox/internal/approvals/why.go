package approvals

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/messages/lexical"
)

// WhyCommands make 'sandbox why'.
type WhyCommands struct {
	// Out is where the explanation goes.
	Out *console.Output
	// JSON reports whether data is printed as JSON.
	JSON func() bool
	// Config is what a session would be started with.
	Config func() (api.Config, error)
	// Policy decides by the rules of the policy, for a folder.
	Policy func(folder string) *approval.Book
	// Attended reports whether a person can be asked in a session of that configuration, if it is started here and now.
	Attended func(api.Config) bool
}

// whyRequest is what was asked for.
type whyRequest struct{ path, op, host, syscall, use string }

// ops are the values of --op.
var ops = []string{"read", "write", "exec"}

// Command is the command.
func (c WhyCommands) Command() *cobra.Command {
	r := whyRequest{}
	cmd := &cobra.Command{
		Use:   "why (--path PATH [--op read|write|exec] | --host HOST[:PORT] | --syscall NAME|NUMBER | --use USE)",
		Short: "Explain what commands could do with a path, a host, a system call or a key, by which rule, and what would change it",
		Long: "The answer is that of a session which 'sandbox run' would start here with the same flags. Of a name, it is what holds\n" +
			"for an ordinary address; the port is 443 unless another is named. With --op, the exit status is 0 if it is allowed, else 1;\n" +
			"of a host or a use of a key, 0 if it is allowed, or a person would be asked, and 1 if nobody could be (no terminal, and none of the programs that show questions); of a system call, 0 if it is not refused, or depends on its arguments.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return console.Usagef("unexpected argument %q: name a path with --path, a host with --host, a system call with --syscall, a use of a key with --use", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context(), r) },
	}
	cmd.Flags().StringVar(&r.path, "path", "", "a `path` of this machine")
	cmd.Flags().StringVar(&r.op, "op", "", "what would be done with it: read, write or exec")
	cmd.Flags().StringVar(&r.host, "host", "", "where a connection would lead to, `HOST[:PORT]`")
	cmd.Flags().StringVar(&r.syscall, "syscall", "", "a system call that a command makes, `NAME|NUMBER`")
	cmd.Flags().StringVar(&r.use, "use", "", "a `USE` of a key of an agent (--agent): ssh:SHA256:KEY:sign:NAMESPACE or ssh:SHA256:KEY:login:USER[:SHA256:SERVER]")
	return cmd
}

func (c WhyCommands) run(ctx context.Context, r whyRequest) error {
	named := 0
	for _, what := range []string{r.path, r.host, r.syscall, r.use} {
		if what != "" {
			named++
		}
	}
	switch {
	case named != 1:
		return console.Usagef("name one of them: --path PATH, --host HOST[:PORT], --syscall NAME|NUMBER or --use USE")
	case r.op != "" && !slices.Contains(ops, r.op):
		return console.Usagef("--op %q: one of %s", r.op, strings.Join(ops, ", "))
	case r.op != "" && r.path == "":
		return console.Usagef("--op says what is done with a --path")
	}
	cfg, err := c.Config()
	if err != nil {
		return err
	}
	if r.syscall != "" {
		return c.syscall(cfg, r.syscall)
	}
	if r.use != "" {
		return c.use(cfg, r.use)
	}
	if r.host != "" {
		return c.host(ctx, cfg, r.host)
	}
	return c.path(cfg, r)
}

func (c WhyCommands) path(cfg api.Config, r whyRequest) error {
	if err := lacking(cfg, "explained view"); err != nil {
		return err
	}
	path, err := filepath.Abs(r.path)
	if err != nil {
		return err
	}
	s, err := jail.Explain(viewOf(cfg), path)
	if err != nil {
		return err
	}
	found := c.rules(cfg, s.Path, r.op)
	if s.Asked && !slices.ContainsFunc(found, allowsReading) && c.refused(cfg, &s.Why, &s.Remedy) {
		s.Read, s.Write, s.Exec, s.Undo, s.Asked = false, false, false, false, false
	}
	c.decided(cfg, &s, found, r.op)
	allowed := map[string]bool{"read": s.Read, "write": s.Write, "exec": s.Exec, "": true}[r.op]
	if c.JSON() {
		if err := c.Out.JSON(sight{s, found}); err != nil {
			return err
		}
	} else {
		c.tellPath(s, r.op, allowed)
		c.tellRules(s, found)
	}
	if !allowed {
		return &console.Error{Code: console.Failed}
	}
	return nil
}

// lacking says that sessions of that configuration do not have what would be explained, or returns nil.
func lacking(cfg api.Config, feature string) error {
	if why, lacks := hypervisor.Lacks(cfg.Runtime.Name(), feature); lacks {
		return fmt.Errorf("with --isolation %s %s; docs/security.md says what holds there", cfg.Runtime.Name(), why)
	}
	return nil
}

func allowsReading(v said) bool { return v.Operation == approval.Read && v.Action == approval.Allow }

// refused reports whether what a person is asked about is refused at once, since nobody can be, and says so.
func (c WhyCommands) refused(cfg api.Config, why, remedy *string) bool {
	if c.Attended(cfg) {
		return false
	}
	*why += "; here nobody can be asked, so it is refused at once"
	const attend = "from a terminal, or beside 'sandbox approvals' or 'sandbox ui', a person is asked"
	if *remedy != "" {
		*remedy += "; "
	}
	*remedy += attend
	return true
}

// viewOf is what of a session's configuration makes its view.
func viewOf(cfg api.Config) hypervisor.Config {
	view := hypervisor.Config{Jail: cfg.Jail, UID: -1, GID: -1, Places: cfg.Places}
	for _, d := range cfg.Directories {
		view.Shares = append(view.Shares, hypervisor.Share{HostPath: d.Path, GuestPath: hypervisor.GuestPath(d.Path), ReadOnly: d.ReadOnly})
	}
	return view
}

// Hidden is what a session of that configuration hides of this machine, and what the user should know of it.
func Hidden(cfg api.Config) ([]hypervisor.Secret, []string, error) {
	hidden, notes, err := jail.Hidden(viewOf(cfg))
	if err != nil {
		return nil, nil, err
	}
	if cfg.Runtime.Name() == "vm" { // of the host it has the folders alone
		hidden = slices.DeleteFunc(hidden, func(h hypervisor.Secret) bool {
			return !slices.ContainsFunc(cfg.Directories, func(d api.Directory) bool { return lexical.Within(h.Path, d.Path) })
		})
	}
	return hidden, notes, nil
}

func (c WhyCommands) tellPath(s hypervisor.Sight, op string, allowed bool) {
	fmt.Fprintln(c.Out, console.Shown(s.Path)+":")
	for _, o := range []struct {
		name string
		can  bool
	}{{"read", s.Read}, {"write", s.Write}, {"exec", s.Exec}} {
		if op != "" && op != o.name {
			continue
		}
		answer := "denied"
		switch {
		case o.can && o.name == "write" && s.Undo:
			answer = "allowed, and can be undone"
		case o.can:
			answer = "allowed"
		}
		fmt.Fprintf(c.Out, "  %-6s %s\n", o.name, answer)
	}
	fmt.Fprintln(c.Out, "because: "+console.Shown(s.Why))
	if s.Remedy != "" && (op == "" || !allowed) {
		fmt.Fprintln(c.Out, "to change it: "+console.Shown(s.Remedy))
	}
}

// verdictOf is what is said of a host, or of a use of a key.
type verdictOf struct {
	Action string `json:"action"` // allow, deny or ask
	Why    string `json:"why"`
	Remedy string `json:"remedy,omitempty"`
}

// whyAnswer is what is said of a host.
type whyAnswer struct {
	Host string `json:"host"`
	Port uint16 `json:"port"`
	verdictOf
}

// tell prints what decides about what, which is all as JSON. It fails if that is denied.
func (c WhyCommands) tell(all any, what string, v verdictOf) error {
	if c.JSON() {
		if err := c.Out.JSON(all); err != nil {
			return err
		}
	} else {
		words := map[string]string{"allow": "allowed", "deny": "denied", "ask": "a person is asked"}
		fmt.Fprintf(c.Out, "%s: %s\nbecause: %s\n", console.Shown(what), words[v.Action], console.Shown(v.Why))
		if v.Remedy != "" {
			fmt.Fprintln(c.Out, "to change it: "+console.Shown(v.Remedy))
		}
	}
	if v.Action == "deny" {
		return &console.Error{Code: console.Failed}
	}
	return nil
}

// unasked makes a denial of what a person would be asked about, if nobody can be.
func (c WhyCommands) unasked(cfg api.Config, v *verdictOf) {
	if v.Action == "ask" && c.refused(cfg, &v.Why, &v.Remedy) {
		v.Action = "deny"
	}
}

// httpsPort is where most connections go.
const httpsPort = 443

// ordinary stands for the address of a name: documentation's (RFC 5737), no machine's.
var ordinary = netip.AddrFrom4([4]byte{192, 0, 2, 1})

func (c WhyCommands) host(ctx context.Context, cfg api.Config, text string) error {
	a, err := explainHost(ctx, cfg.Network, text)
	if err != nil {
		return err
	}
	isolation := cfg.Runtime.Name()
	if why, lacks := hypervisor.Lacks(isolation, "no network"); lacks {
		a.verdictOf = verdictOf{Action: "allow", Why: "--isolation " + isolation + ": " + why, Remedy: hypervisor.Instead(isolation, "no network") + " takes it away"}
	} else if why, lacks := hypervisor.Lacks(isolation, "network policy"); lacks && !cfg.Network.Mode.InPod() {
		a.Why, a.Remedy = why, hypervisor.Instead(isolation, "network policy")+" can have one: "+a.Remedy
	}
	if a.Action == "ask" {
		c.hostByRules(cfg, &a)
	}
	c.unasked(cfg, &a.verdictOf)
	return c.tell(a, fmt.Sprintf("%s port %d", a.Host, a.Port), a.verdictOf)
}

func explainHost(ctx context.Context, n policy.Network, text string) (whyAnswer, error) {
	host, port, err := splitHost(text)
	if err != nil {
		return whyAnswer{}, console.Usage(err)
	}
	a := whyAnswer{Host: host, Port: port}
	if n.None() {
		a.Action, a.Why = "deny", "there is no network"
		a.Remedy = "--network allowlist --allow-host " + text + " opens just this"
		return a, nil
	}
	if _, err := netip.ParseAddr(host); err != nil && n.Mode.InPod() && (n.Mode == policy.PodAsk || len(n.Allow)+len(n.Deny) > 0) {
		return whyAnswer{}, console.Usagef("%s: with --network %s rules are about addresses, and names are the pod's resolver's: give an address", host, n.Mode)
	}
	var last policy.Event
	asked := errors.New("asked")
	e, err := policy.New(policy.Options{
		Network: n, OnEvent: func(ev policy.Event) { last = ev }, AskTimeout: time.Minute,
		Ask: func(context.Context, policy.Question) (policy.Answer, error) { return policy.Answer{}, asked },
	})
	if err != nil {
		return whyAnswer{}, err
	}
	defer e.Close()
	v, t := whyVerdict(ctx, e, host, port)
	a.Action, a.Why = string(v.Action), v.Rule
	switch {
	case v.Action == policy.Deny && strings.Contains(v.Rule, asked.Error()):
		a.Action, a.Why = "ask", "no rule names it"
		a.Remedy = "--allow-host " + text + " allows it unasked"
	case v.Action == policy.Deny:
		e.Denied(t, netip.AddrPort{}, v)
		if rule := last.Remedy(); rule != "" {
			a.Remedy = "--allow-host " + text + " allows it"
		}
	}
	return a, nil
}

// whyVerdict is what the engine decides of a connection, a name's after its lookup.
func whyVerdict(ctx context.Context, e *policy.Engine, host string, port uint16) (policy.Verdict, policy.Target) {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		v := e.Lookup(ctx, host, netip.AddrPort{})
		if v.Action != policy.Allow {
			return v, policy.Target{Protocol: policy.DNS, Address: netip.AddrPortFrom(ordinary, port)}
		}
		addr = ordinary
		e.Learn(v, []netip.Addr{addr}, time.Minute)
	}
	t := policy.Target{Protocol: policy.TCP, Address: netip.AddrPortFrom(addr, port)}
	return e.Connect(ctx, t, netip.AddrPort{}), t
}

// splitHost takes HOST, HOST:PORT, ADDRESS or [ADDRESS]:PORT.
func splitHost(text string) (host string, port uint16, err error) {
	bad := fmt.Errorf("--host %q: give HOST or HOST:PORT, as example.com:443 or [2001:db8::1]:443", text)
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return a.String(), httpsPort, nil
	}
	if a, err := netip.ParseAddrPort(text); err == nil {
		return a.Addr().String(), a.Port(), nil
	}
	host, number, found := strings.Cut(text, ":")
	if port = httpsPort; found {
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil || n == 0 {
			return "", 0, bad
		}
		port = uint16(n)
	}
	if host == "" || strings.ContainsAny(host, "/ \t[]*") {
		return "", 0, bad
	}
	return host, port, nil
}
