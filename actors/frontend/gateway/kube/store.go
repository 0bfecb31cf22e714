package kube

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

const (
	// watchTime is how long a watch lasts before the server ends it, and another begins.
	watchTime = 5 * time.Minute
	// maxLine bounds an event of a watch, maxClaims how many claims a store knows.
	maxLine   = 4 << 20
	maxClaims = 200_000
	pageSize  = 500
)

// ErrGone is returned by [Store.Wait] when a claim that was there is not there any more.
var ErrGone = errors.New("kube: the claim was deleted")

// Store knows the claims of a namespace that have a label, as the API server tells of them.
type Store struct {
	c         *Client
	namespace string
	label     string // NAME=VALUE
	log       *slog.Logger

	mu      sync.Mutex
	claims  map[string]Claim
	version string        // of the last that was heard; empty: nothing was
	failed  error         // the last list or watch; nil: it goes
	changed chan struct{} // closed and replaced at each change
}

// NewStore makes a store, which knows nothing until it runs. log may be nil.
func NewStore(c *Client, namespace, label string, log *slog.Logger) *Store {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Store{c: c, namespace: namespace, label: label, log: log, claims: map[string]Claim{}, changed: make(chan struct{})}
}

// Run keeps the store up to date until ctx ends.
func (s *Store) Run(ctx context.Context) {
	var pause Backoff
	version := ""
	for ctx.Err() == nil {
		var err error
		if version == "" {
			version, err = s.list(ctx)
		}
		if err == nil {
			version, err = s.watch(ctx, version)
			if err == nil {
				pause.Reset()
			}
		}
		if ctx.Err() != nil {
			return
		}
		if Code(err) == http.StatusGone {
			s.log.Debug("the watch is too old, and begins with a list", "namespace", s.namespace)
			version = ""
		}
		s.note(err)
		if pause.Pause(ctx, s.c.clock, err) != nil {
			return
		}
	}
}

// note keeps how it goes, and tells of the first failure in a row.
func (s *Store) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.failed == nil {
		s.log.Warn("the API server does not tell of claims", "namespace", s.namespace, "err", err)
	}
	s.failed = err
}

// list asks for all claims, and returns the version from which to watch.
func (s *Store) list(ctx context.Context) (version string, err error) {
	all := map[string]Claim{}
	q := url.Values{"labelSelector": {s.label}, "limit": {strconv.Itoa(pageSize)}}
	for {
		var page struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
				Continue        string `json:"continue"`
			} `json:"metadata"`
			Items []Claim `json:"items"`
		}
		if err := s.c.do(ctx, request{method: http.MethodGet, path: claims(s.namespace), query: q}, maxList, &page); err != nil {
			return "", err
		}
		for _, c := range page.Items {
			all[c.Metadata.Name] = c
		}
		if len(all) > maxClaims {
			return "", fmt.Errorf("%w: the namespace %s has more than %d claims", errForm, s.namespace, maxClaims)
		}
		if page.Metadata.Continue == "" {
			version = page.Metadata.ResourceVersion
			break
		}
		q.Set("continue", page.Metadata.Continue)
	}
	if version == "" {
		return "", fmt.Errorf("%w: a list without a version", errForm)
	}
	s.change(func() {
		for name, c := range all {
			all[name] = s.newest(c)
		}
		s.claims, s.version = all, version
	})
	return version, nil
}

// newest is what is known of a claim after something is said of it, which may be older. One that is being deleted stays so. The caller holds mu.
func (s *Store) newest(said Claim) Claim {
	known, ok := s.claims[said.Metadata.Name]
	if !ok || known.Metadata.UID != said.Metadata.UID {
		return said
	}
	out := said
	if reached(known.Metadata.ResourceVersion, said.Metadata.ResourceVersion) {
		out = known
	}
	for _, c := range []Claim{known, said} {
		if out.Metadata.Deleted.IsZero() {
			out.Metadata.Deleted = c.Metadata.Deleted
		}
	}
	return out
}

// Saw takes in what the server has answered about a claim, so that who has changed or deleted it finds that done before the watch tells of it. A claim that the store does not know yet is left to the watch.
func (s *Store) Saw(c Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.claims[c.Metadata.Name]; ok && known.Metadata.UID == c.Metadata.UID {
		s.claims[c.Metadata.Name] = s.newest(c)
		s.wake()
	}
}

// change changes what is known, and wakes who waits.
func (s *Store) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.failed = nil
	s.wake()
}

// wake wakes who waits. The caller holds mu.
func (s *Store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// watch takes in changes until the watch ends, and returns the version of the last.
func (s *Store) watch(ctx context.Context, version string) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := url.Values{
		"watch": {"1"}, "labelSelector": {s.label}, "resourceVersion": {version}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {strconv.Itoa(int(watchTime / time.Second))},
	}
	// A connection that has died without a word ends with this, too.
	stop := s.c.clock.AfterFunc(watchTime+time.Minute, cancel)
	defer stop()
	a, err := s.c.send(ctx, request{method: http.MethodGet, path: claims(s.namespace), query: q})
	if err != nil {
		return version, err
	}
	defer a.Body.Close()
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		next, err := s.event(lines.Bytes())
		if err != nil {
			return version, err
		}
		if next != "" {
			version = next
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return version, err
	}
	return version, nil
}

// event takes one line of a watch in, and returns its version.
func (s *Store) event(line []byte) (version string, err error) {
	var e struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return "", fmt.Errorf("%w: an event: %w", errForm, err)
	}
	if e.Type == "ERROR" {
		var status struct {
			Code            int
			Reason, Message string
		}
		if err := json.Unmarshal(e.Object, &status); err != nil {
			return "", fmt.Errorf("%w: an event: %w", errForm, err)
		}
		return "", &StatusError{Code: status.Code, Reason: status.Reason, Message: status.Message}
	}
	var c Claim
	if err := json.Unmarshal(e.Object, &c); err != nil {
		return "", fmt.Errorf("%w: an event: %w", errForm, err)
	}
	name, version := c.Metadata.Name, c.Metadata.ResourceVersion
	if version == "" {
		return "", fmt.Errorf("%w: an event without a version", errForm)
	}
	switch e.Type {
	case "BOOKMARK":
		s.change(func() { s.version = version })
	case "ADDED", "MODIFIED":
		if name == "" || s.full() {
			return "", fmt.Errorf("%w: an event without a name, or of too many claims", errForm)
		}
		s.change(func() { s.claims[name], s.version = s.newest(c), version })
	case "DELETED":
		s.change(func() { delete(s.claims, name); s.version = version })
	}
	return version, nil
}

func (s *Store) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.claims) >= maxClaims
}

// Get returns a claim, unless it is not known or being deleted.
func (s *Store) Get(name string) (Claim, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.claims[name]
	return c, ok && c.Metadata.Deleted.IsZero()
}

// List returns all claims that are not being deleted, in no order.
func (s *Store) List() []Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Claim, 0, len(s.claims))
	for _, c := range s.claims {
		if c.Metadata.Deleted.IsZero() {
			out = append(out, c)
		}
	}
	return out
}

// Synced returns when the claims are known that there were, or with the cause of ctx, and with why they are not.
func (s *Store) Synced(ctx context.Context) error {
	for {
		s.mu.Lock()
		version, changed, failed := s.version, s.changed, s.failed
		s.mu.Unlock()
		if version != "" {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(failed, context.Cause(ctx))
		}
	}
}

// Wait returns a claim when done says so. seen is the claim as the caller knows it: what was heard from before that does not count. A claim that is not there any more is [ErrGone]. When ctx ends, Wait returns its
// cause and the claim as it is.
func (s *Store) Wait(ctx context.Context, seen Claim, done func(Claim) (bool, error)) (Claim, error) {
	last := seen
	for {
		s.mu.Lock()
		c, ok := s.claims[seen.Metadata.Name]
		version, changed := s.version, s.changed
		s.mu.Unlock()
		switch current := reached(version, seen.Metadata.ResourceVersion); {
		case ok && c.Metadata.UID == seen.Metadata.UID && reached(c.Metadata.ResourceVersion, seen.Metadata.ResourceVersion):
			if !c.Metadata.Deleted.IsZero() {
				return c, ErrGone
			}
			last = c
			if is, err := done(c); is || err != nil {
				return c, err
			}
		case current && (!ok || c.Metadata.UID != seen.Metadata.UID):
			return last, ErrGone
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return last, context.Cause(ctx)
		}
	}
}

// reached reports whether a version is at least as new as another one. They are numbers that grow.
func reached(version, wanted string) bool {
	have, errHave := strconv.ParseUint(version, 10, 64)
	want, errWant := strconv.ParseUint(wanted, 10, 64)
	return errHave == nil && errWant == nil && have >= want
}
