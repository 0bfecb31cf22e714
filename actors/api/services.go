package api

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"
)

// ErrService is what is wrong with a request about a service: the error says it.
var ErrService = errors.New("service")

// ErrNoService is the [ErrService] of who names a service that there is not.
var ErrNoService = fmt.Errorf("%w: no service", ErrService)

// Services are commands with a name that run beside the steps: they hold none open. What
// one writes belongs to the step that is open at the time, or to an ambient one. All
// end with the session.
type Services interface {
	// StartService returns when the service runs. It fails with [ErrService] if one of
	// that name does, and as [Runner] if it cannot be started.
	StartService(ctx context.Context, r ServiceRequest) (ServiceStatus, error)
	// Services lists those that run, and those that have ended.
	Services(ctx context.Context) ([]ServiceStatus, error)
	// ServiceOutput returns the newest of what a service has written.
	ServiceOutput(ctx context.Context, r ServiceOutputRequest) (ServiceOutput, error)
	// StopService ends a service (TERM, KILL after 2 s), and returns when it has ended.
	StopService(ctx context.Context, r ServiceName) (ServiceStatus, error)
	// Processes lists what runs inside, the oldest first. It fails with [errors.ErrUnsupported] where the
	// host has no such list: a virtual machine has a kernel of its own.
	Processes(ctx context.Context) ([]Running, error)
	// Kill cancels the commands that run, services not included, and says how many.
	Kill(ctx context.Context) (int, error)
}

func serviceOperations() []Operation {
	return []Operation{
		{Control: "service_start", STDIO: "service.start", Traits: Stops | Commands, Call: asks(Services.StartService)},
		{Control: "service_list", STDIO: "service.list", Traits: Reads | Large, Call: gets(Services.Services),
			Member: "services", Says: "in the order in which they were started, those that have ended too"},
		{Control: "service_output", STDIO: "service.output", Traits: Reads | Large, Call: asks(Services.ServiceOutput)},
		{Control: "service_stop", STDIO: "service.stop", Traits: Stops, Call: asks(Services.StopService), Member: "service"},
		{Control: "processes", Traits: Reads, Call: gets(Services.Processes)},
		{Control: "kill", Call: gets(Services.Kill)},
	}
}

func (c Remote) StartService(ctx context.Context, r ServiceRequest) (ServiceStatus, error) {
	return ask[ServiceStatus](ctx, c, "service_start", r)
}

func (c Remote) Services(ctx context.Context) ([]ServiceStatus, error) {
	return ask[[]ServiceStatus](ctx, c, "service_list", None{})
}

func (c Remote) ServiceOutput(ctx context.Context, r ServiceOutputRequest) (ServiceOutput, error) {
	return ask[ServiceOutput](ctx, c, "service_output", r)
}

func (c Remote) StopService(ctx context.Context, r ServiceName) (ServiceStatus, error) {
	return ask[ServiceStatus](ctx, c, "service_stop", r)
}

func (c Remote) Processes(ctx context.Context) ([]Running, error) {
	return ask[[]Running](ctx, c, "processes", None{})
}

func (c Remote) Kill(ctx context.Context) (int, error) { return ask[int](ctx, c, "kill", None{}) }

// ServiceRequest starts a service.
type ServiceRequest struct {
	Name string   `json:"name"` // letters, digits, '.', '_', '-'; at most 64
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"` // host path; empty means the first working folder
	// Publish are ports of the guest that the host can connect to as long as the service
	// runs: [ADDR:]HOST:GUEST, by default on 127.0.0.1, and on an address of the loopback
	// only. They are taken before the service starts.
	Publish []string `json:"publish,omitempty"`
}

// ServiceName names a service.
type ServiceName struct {
	Name string `json:"name"`
}

var serviceNames = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`) })

// Validate says what is wrong with a request, whatever the session: an [ErrService].
func (r ServiceRequest) Validate() error {
	switch {
	case !serviceNames().MatchString(r.Name):
		return fmt.Errorf("%w: %q is no name of a service: 1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit", ErrService, r.Name)
	case len(r.Argv) == 0 || r.Argv[0] == "":
		return fmt.Errorf("%w: service %s: no command given", ErrService, r.Name)
	}
	return nil
}

// The states of a service.
const (
	ServiceRunning = "running"
	ServiceEnded   = "ended"
)

// ServiceStatus describes a service.
type ServiceStatus struct {
	Name        string     `json:"name"`
	Command     string     `json:"command" jsonschema:"its arguments, quoted for a shell"`
	Dir         string     `json:"dir,omitempty" jsonschema:"the directory that it was started in"`
	State       string     `json:"state" jsonschema:"running or ended"`
	StartedAt   time.Time  `json:"started_at"`
	EndedAt     *time.Time `json:"ended_at,omitempty"`
	ExitCode    *int       `json:"exit_code,omitempty" jsonschema:"128+n if signal n ended it; left out while it runs, or if its end is not known"`
	OutputBytes int64      `json:"output_bytes" jsonschema:"that it has written to stdout and stderr"`
	Publish     []string   `json:"publish,omitempty" jsonschema:"its ports that the host can connect to, while it runs"`
}

// ServiceOutputRequest asks for output.
type ServiceOutputRequest struct {
	Name  string `json:"name"`
	Limit int    `json:"limit,omitempty" jsonschema:"bytes, at most 256 KiB, which is the default: the newest"`
}

// ServiceOutput is the newest output of a service, stdout and stderr in one.
type ServiceOutput struct {
	Service ServiceStatus `json:"service"`
	Data    []byte        `json:"data"`
	Omitted int64         `json:"omitted_bytes"` // written before
}
