package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
)

type serviceInput struct {
	where
	Name    string            `json:"name" jsonschema:"a name to speak of it: letters, digits, '.', '_' and '-'"`
	Command string            `json:"command" jsonschema:"shell command, run by sh -c"`
	Cwd     string            `json:"cwd,omitempty" jsonschema:"directory to run it in, relative to the working folder; default: the folder itself"`
	Env     map[string]string `json:"env,omitempty" jsonschema:"environment variables to set in addition"`
	Publish []string          `json:"publish,omitempty" jsonschema:"ports that the user's own programs, such as a browser, can connect to while it runs: HOST:INSIDE, for instance 5173:5173; only on this machine"`
}

func (in serviceInput) about() (directory, path string) { return in.Directory, in.Cwd }

type serviceName struct {
	Name string `json:"name" jsonschema:"that it was started with"`
}

type servicesInput struct {
	Name string `json:"name,omitempty" jsonschema:"only this one"`
}

type serviceOutputInput struct {
	serviceName
	MaxOutput int `json:"max_output_bytes,omitempty" jsonschema:"how much to return at most, the newest; default 32768"`
}

// ServiceResult is what start_service and stop_service return.
type ServiceResult struct {
	Service api.ServiceStatus `json:"service"`
}

// ServiceListResult is what list_services returns.
type ServiceListResult struct {
	Services []api.ServiceStatus `json:"services" jsonschema:"those that run, and those that have ended"`
}

// ServiceOutputResult is what service_output returns.
type ServiceOutputResult struct {
	Service      api.ServiceStatus `json:"service"`
	Output       string            `json:"output" jsonschema:"stdout and stderr in one"`
	OmittedBytes int64             `json:"omitted_bytes" jsonschema:"written before"`
}

func (s *Server) addServiceTools() {
	addRaw(s, definition{
		name: "start_service", description: descStartService,
		hints: hints{title: "Start a server in the background", destructive: true, open: true},
		limits: map[string]func(*jsonschema.Schema){
			"publish": func(p *jsonschema.Schema) { p.MaxItems = new(16) },
		},
	}, s.startService)
	add(s, definition{
		name: "service_output", description: descServiceOutput,
		hints:  hints{title: "Read what a service has written", readOnly: true, idempotent: true},
		limits: map[string]func(*jsonschema.Schema){"max_output_bytes": between(0, maxKeptOutput)},
	}, serviceOutput)
	add(s, definition{
		name: "stop_service", description: descStopService,
		hints: hints{title: "Stop a service", destructive: true, idempotent: true},
	}, stopService)
	add(s, definition{
		name: "list_services", description: descListServices,
		hints: hints{title: "List the services", readOnly: true, idempotent: true},
	}, listServices)
}

func (s *Server) startService(ctx context.Context, req *sdk.CallToolRequest, live api.Live, in serviceInput) (*sdk.CallToolResult, *ServiceResult, error) {
	if strings.TrimSpace(in.Command) == "" {
		return nil, nil, errors.New("command is empty")
	}
	r, err := s.runRequest(ctx, live, commandInput{where: in.where, Command: in.Command, Cwd: in.Cwd, Env: in.Env})
	if err != nil {
		return nil, nil, err
	}
	began, failed := s.tellEnd(live, req.Session)
	st, err := live.StartService(ctx, api.ServiceRequest{Name: in.Name, Argv: r.Argv, Env: r.Env, Dir: r.Dir, Publish: in.Publish})
	if err != nil {
		failed()
		return nil, nil, err
	}
	began(st)
	out := &ServiceResult{st}
	return textResult(serviceText(out.Service) + "\n[service_output shows what it writes, stop_service ends it]"), out, nil
}

// maxNews bounds what a client has not been told yet.
const maxNews = 64

// tellEnd tells the client of the end of the service that it is about to start, with
// its next result. It is to be told whether the service began.
func (s *Server) tellEnd(live api.Live, client *sdk.ServerSession) (began func(api.ServiceStatus), failed func()) {
	var own api.ServiceStatus // once known is closed
	known := make(chan struct{})
	ctx, cancel := context.WithCancel(s.ctx)
	unsubscribe := live.Subscribe(func(e api.Event) {
		select {
		case <-known:
		case <-ctx.Done():
			return
		}
		if e.Service == nil || e.Service.Name != own.Name || !e.Service.StartedAt.Equal(own.StartedAt) {
			return
		}
		s.mu.Lock()
		if list, there := s.news[client]; there && len(list) < maxNews {
			s.news[client] = append(list, serviceText(*e.Service))
		}
		s.mu.Unlock()
		cancel()
	}, api.EventServiceEnded)
	context.AfterFunc(ctx, unsubscribe)
	return func(st api.ServiceStatus) { own = st; close(known) }, cancel
}

// addNews adds to a result what the client has not been told yet.
func (s *Server) addNews(client *sdk.ServerSession, res *sdk.CallToolResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if list := s.news[client]; len(list) > 0 {
		res.Content = append(res.Content, &sdk.TextContent{Text: "[meanwhile: " + strings.Join(list, "; ") + "]"})
		s.news[client] = nil
	}
}

func serviceOutput(ctx context.Context, live api.Live, in serviceOutputInput) (*ServiceOutputResult, string, error) {
	if in.MaxOutput == 0 {
		in.MaxOutput = keptOutput
	}
	o, err := live.ServiceOutput(ctx, api.ServiceOutputRequest{Name: in.Name, Limit: in.MaxOutput})
	if err != nil {
		return nil, "", err
	}
	out := &ServiceOutputResult{Service: o.Service, Output: frontend.Valid(string(frontend.Whole(frontend.Rest(o.Data)))), OmittedBytes: o.Omitted}
	text := ""
	if out.OmittedBytes > 0 {
		text = fmt.Sprintf("[... %d bytes left out ...]\n", out.OmittedBytes)
	}
	if text += out.Output; text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return out, text + "[" + serviceText(out.Service) + "]", nil
}

func stopService(ctx context.Context, live api.Live, in serviceName) (*ServiceResult, string, error) {
	st, err := live.StopService(ctx, api.ServiceName{Name: in.Name})
	if err != nil {
		return nil, "", err
	}
	out := &ServiceResult{st}
	return out, serviceText(out.Service), nil
}

func listServices(ctx context.Context, live api.Live, in servicesInput) (*ServiceListResult, string, error) {
	list, err := live.Services(ctx)
	if err != nil {
		return nil, "", err
	}
	list = slices.DeleteFunc(list, func(st api.ServiceStatus) bool { return in.Name != "" && st.Name != in.Name })
	out := &ServiceListResult{api.OrEmpty(list)}
	lines := make([]string, len(list))
	for i, v := range out.Services {
		lines[i] = serviceText(v)
	}
	return out, listing(lines, "service", false), nil
}

// serviceText is a service on a line.
func serviceText(v api.ServiceStatus) string {
	text := "service " + v.Name
	switch {
	case v.State == api.ServiceRunning:
		text += " runs"
	case v.ExitCode != nil:
		text += fmt.Sprintf(" has ended: exit code %d", *v.ExitCode)
	default:
		text += " has ended"
	}
	if len(v.Publish) > 0 {
		text += "; published: " + strings.Join(v.Publish, ", ")
	}
	return text + ": " + oneLine(v.Command)
}
