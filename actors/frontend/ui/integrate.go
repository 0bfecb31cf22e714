package ui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"sync"
)

// Integration is what shall become of a client's files.
type Integration struct {
	Client string
	Remove bool
	What   string // "mcp", "shell" or "both"
	// Expect is the digest of the preview that shall come true; empty: there is only to be a preview.
	Expect string
}

// Integrated is what [Sources.Integrate] answers: what the command says as JSON, and for people.
type Integrated struct {
	Result json.RawMessage `json:"result"`
	Note   string          `json:"note,omitempty"`
}

// ErrStale is returned by [Sources.Integrate] if a file is not any more as the preview found it.
var ErrStale = errors.New("a file was changed since the preview")

// Refused is an error of [Sources.Integrate] that says why nothing was done, and what to do.
type Refused string

func (r Refused) Error() string { return string(r) }

var (
	clientName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`) })
	digest     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })
)

func invalid(field, hint string) error {
	return &problem{http.StatusBadRequest, "invalid_field", field, hint}
}

// previewed checks that a request either only looks, or names what was looked at.
func previewed(dryRun bool, expect string) error {
	if dryRun && expect != "" {
		return invalid("a dry run expects nothing", "leave expect out")
	}
	if !dryRun && !digest().MatchString(expect) {
		return invalid("expect has to name the preview", "ask with dry_run first, and send its digest")
	}
	return nil
}

// integrate previews an installation or a removal, or does what a preview has shown.
func (s *Server) integrate(r *http.Request) (any, error) {
	var in struct {
		Action string `json:"action"` // install or uninstall
		What   string `json:"what"`
		DryRun bool   `json:"dry_run,omitempty"`
		Expect string `json:"expect,omitempty"`
	}
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	name := r.PathValue("client")
	switch {
	case !clientName().MatchString(name):
		return nil, &problem{http.StatusNotFound, "not_found", "there is no such client", ""}
	case in.Action != "install" && in.Action != "uninstall":
		return nil, invalid("action is neither install nor uninstall", "")
	case in.What != "mcp" && in.What != "shell" && in.What != "both":
		return nil, invalid("what is none of mcp, shell, both", "")
	}
	if err := previewed(in.DryRun, in.Expect); err != nil {
		return nil, err
	}
	defer s.turn("clients")() // no folder's id
	// What has begun is not cut short when the page leaves.
	ctx := r.Context()
	if !in.DryRun {
		ctx = context.WithoutCancel(ctx)
	}
	done, err := s.o.Sources.Integrate(ctx, Integration{Client: name, Remove: in.Action == "uninstall", What: in.What, Expect: in.Expect})
	if !in.DryRun {
		s.hub.tell(change{What: "clients"})
	}
	if err != nil {
		return nil, refusal(err)
	}
	return done, nil
}

// refusal is what the page is told of a file that was not changed.
func refusal(err error) error {
	why := Refused("")
	switch {
	case errors.Is(err, ErrStale):
		return &problem{http.StatusConflict, "changed", err.Error(), "look at what would change now"}
	case errors.As(err, &why):
		return &problem{http.StatusConflict, "refused", err.Error(), ""}
	}
	return err
}
