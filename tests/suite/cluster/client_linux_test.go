//go:build cluster

package cluster

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// object is one of the cluster's.
type object = map[string]any

// at returns what lies at a path of names in an object, or nil.
func at(o any, names ...string) any {
	for _, name := range names {
		m, ok := o.(object)
		if !ok {
			return nil
		}
		o = m[name]
	}
	return o
}

// text is a string at a path.
func text(o any, names ...string) string {
	s, _ := at(o, names...).(string)
	return s
}

// list is what an array has at a path.
func list(o any, names ...string) (out []object) {
	items, _ := at(o, names...).([]any)
	for _, i := range items {
		if m, ok := i.(object); ok {
			out = append(out, m)
		}
	}
	return out
}

// objects are those of a file.
func objects(t *testing.T, file string) (all []object) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for d := yaml.NewDecoder(bytes.NewReader(b)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(o) > 0 {
			all = append(all, o)
		}
	}
}

// client asks the API server as its administrator. It is safe for concurrent use.
type client struct {
	http *http.Client

	mu    sync.Mutex
	kinds map[string]string // by apiVersion and kind: the path, with %s for a namespace
}

func newClient(ca []byte) *client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &client{
		http:  &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}},
		kinds: map[string]string{},
	}
}

// do asks, and decodes the answer.
func (c *client) do(method, path, kind string, body any) (status int, answer object, err error) {
	b, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	if body == nil {
		b = nil
	}
	r, err := http.NewRequest(method, serverURL+path, bytes.NewReader(b))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+adminToken)
	r.Header.Set("Accept", "application/json")
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	a, err := c.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer a.Body.Close()
	if b, err = io.ReadAll(a.Body); err != nil {
		return 0, nil, err
	}
	_ = json.Unmarshal(b, &answer) // /readyz is text
	return a.StatusCode, answer, nil
}

// must asks, and complains about what is no success.
func (c *client) must(method, path, kind string, body any) (object, error) {
	status, answer, err := c.do(method, path, kind, body)
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("%s %s: %d %s", method, path, status, text(answer, "message"))
	}
	return answer, err
}

// all is a list of objects of a namespace.
func (c *client) all(path string) ([]object, error) {
	answer, err := c.must(http.MethodGet, path, "", nil)
	return list(answer, "items"), err
}

// pathOf finds where an object is, by what the server says of its kind. namespace is for those that name none.
func (c *client) pathOf(o object, namespace string) (string, error) {
	version, kind := text(o, "apiVersion"), text(o, "kind")
	c.mu.Lock()
	form := c.kinds[version+" "+kind]
	c.mu.Unlock()
	if form == "" {
		base := "/apis/" + version
		if !strings.Contains(version, "/") {
			base = "/api/" + version
		}
		answer, err := c.must(http.MethodGet, base, "", nil)
		if err != nil {
			return "", err
		}
		for _, r := range list(answer, "resources") {
			name := text(r, "name")
			if text(r, "kind") != kind || strings.Contains(name, "/") {
				continue
			}
			if form = base + "/" + name + "/"; r["namespaced"] == true {
				form = base + "/namespaces/%s/" + name + "/"
			}
		}
		if form == "" {
			return "", fmt.Errorf("%s has no %s", version, kind)
		}
		c.mu.Lock()
		c.kinds[version+" "+kind] = form
		c.mu.Unlock()
	}
	if own := text(o, "metadata", "namespace"); own != "" {
		namespace = own
	}
	if strings.Contains(form, "%s") {
		form = fmt.Sprintf(form, namespace)
	}
	return form + text(o, "metadata", "name"), nil
}

// apply has an object be as it is said, or, with the query dryRun=All, only tries that. A field that the server does not know is an error.
func (c *client) apply(o object, namespace, query string) error {
	path, err := c.pathOf(o, namespace)
	if err != nil {
		return err
	}
	if _, err = c.must(http.MethodPatch, path+"?fieldManager=test&force=true&fieldValidation=Strict&"+query, "application/apply-patch+yaml", o); err != nil {
		return fmt.Errorf("%s %s: %w", text(o, "kind"), text(o, "metadata", "name"), err)
	}
	return nil
}

// merge changes an object by a merge patch.
func (c *client) merge(path string, patch object) error {
	_, err := c.must(http.MethodPatch, path, "application/merge-patch+json", patch)
	return err
}
