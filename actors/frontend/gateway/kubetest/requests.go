package kubetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/actors/frontend/gateway/kube"
)

const (
	claimPrefix   = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/"
	sandboxPrefix = "/apis/agents.x-k8s.io/v1beta1/namespaces/"
	eventPrefix   = "/api/v1/namespaces/"
	// perPage is how many claims a list has, however many are asked for.
	perPage = 2
)

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	s.tokens = append(s.tokens, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	down, starting, refused := s.down, s.starting, s.refuse[r.Method]
	lost := s.lose == r.Method
	if lost {
		s.lose = ""
	}
	s.mu.Unlock()
	if down {
		panic(http.ErrAbortHandler)
	}
	switch {
	case starting:
		s.status(w, http.StatusForbidden, "Forbidden", `User "system:serviceaccount:a:b" cannot do that: RBAC: role.rbac.authorization.k8s.io "b" not found`)
		return
	case r.URL.Path == "/readyz":
		_, _ = io.WriteString(w, "ok")
		return
	case refused != 0:
		s.status(w, refused, "Refused", "the test says so")
		return
	case lost:
		s.route(discard{header: http.Header{}}, r)
		panic(http.ErrAbortHandler)
	}
	s.route(w, r)
}

// discard is a lost answer.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	if rest, ok := strings.CutPrefix(r.URL.Path, claimPrefix); ok {
		parts := strings.Split(rest, "/")
		switch {
		case len(parts) == 2 && parts[1] == "sandboxclaims" && r.Method == http.MethodPost:
			s.post(w, r, parts[0])
			return
		case len(parts) == 2 && parts[1] == "sandboxclaims" && r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
			s.watch(w, r, parts[0])
			return
		case len(parts) == 2 && parts[1] == "sandboxclaims" && r.Method == http.MethodGet:
			s.list(w, r, parts[0])
			return
		case len(parts) == 3 && parts[1] == "sandboxclaims":
			s.one(w, r, parts[0], parts[2])
			return
		}
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, sandboxPrefix); ok && r.Method == http.MethodPatch {
		if parts := strings.Split(rest, "/"); len(parts) == 3 && parts[1] == "sandboxes" {
			s.patchSandbox(w, r, parts[0], parts[2])
			return
		}
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, eventPrefix); ok && r.Method == http.MethodGet {
		if namespace, ok := strings.CutSuffix(rest, "/events"); ok {
			name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "involvedObject.name=")
			s.mu.Lock()
			items := append([]kube.Event{}, s.events[namespace+"/"+name]...)
			s.mu.Unlock()
			reply(w, http.StatusOK, map[string]any{"items": items})
			return
		}
	}
	s.status(w, http.StatusNotFound, "NotFound", "there is no such resource")
}

func decode(w http.ResponseWriter, r *http.Request, s *Server, into any) bool {
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		s.status(w, http.StatusBadRequest, "BadRequest", err.Error())
	}
	return err == nil
}

func (s *Server) post(w http.ResponseWriter, r *http.Request, namespace string) {
	var c kube.Claim
	if !decode(w, r, s, &c) {
		return
	}
	s.mu.Lock()
	if _, there := s.claims[namespace+"/"+c.Metadata.Name]; there {
		s.mu.Unlock()
		s.status(w, http.StatusConflict, "AlreadyExists", c.Metadata.Name+" exists already")
		return
	}
	c.Metadata.Namespace, c.Status = namespace, kube.ClaimStatus{}
	c = s.create(c)
	s.mu.Unlock()
	if s.OnCreate != nil {
		s.OnCreate(c)
	}
	reply(w, http.StatusCreated, c)
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, namespace string) {
	at, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	names := s.Claims(namespace)
	page := names[min(at, len(names)):min(at+perPage, len(names))]
	items := []kube.Claim{}
	s.mu.Lock()
	for _, name := range page {
		if c, ok := s.claims[namespace+"/"+name]; ok && selected(r, c) {
			items = append(items, c)
		}
	}
	metadata := map[string]string{"resourceVersion": strconv.FormatUint(s.version, 10)}
	s.mu.Unlock()
	if at+perPage < len(names) {
		metadata["continue"] = strconv.Itoa(at + perPage)
	}
	reply(w, http.StatusOK, map[string]any{"metadata": metadata, "items": items})
}

// selected reports whether a claim has the label that is asked for.
func selected(r *http.Request, c kube.Claim) bool {
	name, value, ok := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
	return !ok || c.Metadata.Labels[name] == value
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, namespace string) {
	from, err := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || from < s.oldest {
		s.mu.Unlock()
		defer s.mu.Lock()
		// As a stream that has begun: the other way is a plain 410, which lists have.
		reply(w, http.StatusOK, map[string]any{"type": "ERROR", "object": map[string]any{"kind": "Status", "code": http.StatusGone, "reason": "Expired", "message": "too old resource version"}})
		return
	}
	s.began++
	number := s.began
	s.watching[namespace]++
	s.cond.Broadcast()
	defer func() { s.watching[namespace]-- }()
	gone := r.Context().Done()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-gone:
			s.mu.Lock()
			s.cond.Broadcast()
			s.mu.Unlock()
		case <-stop:
		}
	}()
	w.Header().Set("Content-Type", "application/json")
	for {
		var lines []any
		for _, c := range s.history {
			if c.version > from && c.namespace == namespace {
				from = c.version
				if selected(r, c.object) {
					lines = append(lines, map[string]any{"type": c.kind, "object": c.object})
				}
			}
		}
		if from < s.version {
			from = s.version
			lines = append(lines, map[string]any{"type": "BOOKMARK", "object": map[string]any{"kind": "SandboxClaim", "metadata": map[string]any{"resourceVersion": strconv.FormatUint(from, 10)}}})
		}
		s.mu.Unlock()
		for _, line := range lines {
			b, err := json.Marshal(line)
			if err != nil {
				panic(err)
			}
			_, _ = w.Write(append(b, '\n'))
		}
		_ = http.NewResponseController(w).Flush()
		s.mu.Lock()
		for (from >= s.version || s.late) && number >= s.cut && r.Context().Err() == nil {
			s.cond.Wait()
		}
		if number < s.cut || r.Context().Err() != nil {
			return
		}
	}
}

// one answers about one claim.
func (s *Server) one(w http.ResponseWriter, r *http.Request, namespace, name string) {
	var patch map[string]any
	var options struct{ Preconditions struct{ UID string } }
	switch r.Method {
	case http.MethodPatch:
		if r.Header.Get("Content-Type") != "application/merge-patch+json" {
			s.status(w, http.StatusUnsupportedMediaType, "UnsupportedMediaType", "a merge patch, please")
			return
		}
		if !decode(w, r, s, &patch) {
			return
		}
	case http.MethodDelete:
		if !decode(w, r, s, &options) {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.claims[namespace+"/"+name]
	if !ok {
		s.status(w, http.StatusNotFound, "NotFound", fmt.Sprintf("sandboxclaims %q not found", name))
		return
	}
	switch r.Method {
	case http.MethodGet:
		reply(w, http.StatusOK, c)
	case http.MethodDelete:
		if uid := options.Preconditions.UID; uid != "" && uid != c.Metadata.UID {
			s.status(w, http.StatusConflict, "Conflict", "another uid")
			return
		}
		s.put("DELETED", c)
		reply(w, http.StatusOK, map[string]any{"kind": "Status", "status": "Success"})
	case http.MethodPatch:
		metadata, _ := patch["metadata"].(map[string]any)
		if s.conflicts > 0 {
			s.conflicts--
			s.put("MODIFIED", c) // somebody else
			s.status(w, http.StatusConflict, "Conflict", "the object has been modified")
			return
		}
		if version, _ := metadata["resourceVersion"].(string); version != "" && version != c.Metadata.ResourceVersion {
			s.status(w, http.StatusConflict, "Conflict", "the object has been modified")
			return
		}
		merged, err := merge(c, patch)
		if err != nil {
			s.status(w, http.StatusUnprocessableEntity, "Invalid", err.Error())
			return
		}
		reply(w, http.StatusOK, s.put("MODIFIED", merged))
	default:
		s.status(w, http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method)
	}
}

// merge applies a merge patch.
func merge(c kube.Claim, patch map[string]any) (out kube.Claim, err error) {
	b, err := json.Marshal(c)
	if err != nil {
		return out, err
	}
	var object map[string]any
	if err := json.Unmarshal(b, &object); err != nil {
		return out, err
	}
	if b, err = json.Marshal(apply(object, patch)); err != nil {
		return out, err
	}
	return out, json.Unmarshal(b, &out)
}

func apply(object, patch map[string]any) map[string]any {
	if object == nil {
		object = map[string]any{}
	}
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(object, k)
		case map[string]any:
			inner, _ := object[k].(map[string]any)
			object[k] = apply(inner, v)
		default:
			object[k] = v
		}
	}
	return object
}

// patchSandbox changes a Sandbox, or says how it is if nothing is to be changed. The controller hears of it after that.
func (s *Server) patchSandbox(w http.ResponseWriter, r *http.Request, namespace, name string) {
	var patch map[string]any
	if !decode(w, r, s, &patch) {
		return
	}
	metadata, _ := patch["metadata"].(map[string]any)
	version, _ := metadata["resourceVersion"].(string)
	s.mu.Lock()
	o, there := s.sandbox(namespace, name)
	var before, after kube.Sandbox
	if there {
		convert(o, &before)
	}
	faster := there && len(patch) > 0 && s.conflicts > 0
	if faster {
		s.conflicts--
		s.putSandbox(namespace, name, o) // somebody else
	}
	conflict := faster || version != "" && version != before.Metadata.ResourceVersion
	if there && !conflict {
		var was, is map[string]any
		convert(o, &was)
		convert(apply(o, patch), &is)
		if !reflect.DeepEqual(was["spec"], is["spec"]) {
			is = apply(is, map[string]any{"metadata": map[string]any{"generation": before.Metadata.Generation + 1}})
		}
		if !reflect.DeepEqual(was, is) { // else it stays the same version
			s.putSandbox(namespace, name, is)
		}
		convert(s.sandboxes[namespace+"/"+name], &after)
	}
	s.mu.Unlock()
	switch {
	case !there:
		s.status(w, http.StatusNotFound, "NotFound", fmt.Sprintf("sandboxes %q not found", name))
		return
	case conflict:
		s.status(w, http.StatusConflict, "Conflict", "the object has been modified")
		return
	}
	if after.Metadata.Generation != before.Metadata.Generation && s.OnMode != nil {
		s.OnMode(namespace, name, after.Spec.OperatingMode)
	}
	reply(w, http.StatusOK, after)
}
