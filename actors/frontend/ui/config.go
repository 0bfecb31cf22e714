package ui

import (
	"context"
	"encoding/json"
	"net/http"
)

// TextChange is what shall become of a level's configuration file.
type TextChange struct {
	Level  string // "organisation", "user" or "project"
	Folder string // whose project's file counts; empty: none
	Text   string
	// Expect is the digest of the preview that shall come true; empty: there is only to be a preview.
	Expect string
}

// levelOf is the level of a request's path.
func levelOf(r *http.Request, folder string) (string, error) {
	level := r.PathValue("level")
	switch level {
	case "organisation", "user":
	case "project":
		if folder == "" {
			return "", invalid("a project's file is in a folder", "name the folder")
		}
	default:
		return "", &problem{http.StatusNotFound, "not_found", "there is no such level", ""}
	}
	return level, nil
}

// text is a level's configuration file.
func (s *Server) text(r *http.Request) (any, error) {
	folder, err := s.folderPath(r.URL.Query().Get("folder"))
	if err != nil {
		return nil, err
	}
	level, err := levelOf(r, folder)
	if err != nil {
		return nil, err
	}
	text, err := s.o.Sources.Text(r.Context(), level, folder)
	if err != nil {
		return nil, refusal(err)
	}
	return text, nil
}

// putText previews another text of a level's file, or does what a preview has shown.
func (s *Server) putText(r *http.Request) (any, error) {
	var in struct {
		Folder string `json:"folder,omitempty"`
		Text   string `json:"text"`
		DryRun bool   `json:"dry_run,omitempty"`
		Expect string `json:"expect,omitempty"`
	}
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	folder, err := s.folderPath(in.Folder)
	if err != nil {
		return nil, err
	}
	level, err := levelOf(r, folder)
	if err != nil {
		return nil, err
	}
	if err := previewed(in.DryRun, in.Expect); err != nil {
		return nil, err
	}
	defer s.turn("config")() // no folder's id
	// What has begun is not cut short when the page leaves.
	ctx := r.Context()
	if !in.DryRun {
		ctx = context.WithoutCancel(ctx)
	}
	done, err := s.o.Sources.PutText(ctx, TextChange{Level: level, Folder: folder, Text: in.Text, Expect: in.Expect})
	if err != nil {
		return nil, refusal(err)
	}
	if !in.DryRun {
		s.hub.tell(change{What: "config"})
	}
	return map[string]json.RawMessage{"result": done}, nil
}
