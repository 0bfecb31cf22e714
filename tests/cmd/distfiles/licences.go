package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|unlicense)([-._].*)?$`)

// writeLicences writes the texts of the licences of all modules that are linked into the
// programs, for each processor.
func writeLicences(dir string) error {
	files := map[string][]string{"Go " + runtime.Version(): nil} // by module
	for _, arch := range []string{"amd64", "arm64"} {
		cmd := exec.Command("go", "list", "-deps", "-f", `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}	{{.Dir}}	{{$.Dir}}{{end}}{{end}}`,
			"./cmd/sandbox", "./cmd/sandbox-guest")
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		for line := range strings.Lines(string(out)) {
			part := strings.Split(strings.TrimSpace(line), "\t")
			if len(part) != 3 {
				continue
			}
			if files[part[0]], err = addLicences(files[part[0]], part[1], part[2]); err != nil {
				return err
			}
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	goroot := strings.TrimSpace(string(root))
	if files["Go "+runtime.Version()], err = addLicences(nil, goroot, goroot); err != nil {
		return err
	}
	text, err := joined(files)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "THIRD-PARTY"), text, 0o644)
}

// addLicences adds those in a package's directory and above it in its module.
func addLicences(known []string, module, dir string) ([]string, error) {
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if e.Type().IsRegular() && licenceName.MatchString(e.Name()) && !strings.HasSuffix(path, ".go") && !slices.Contains(known, path) {
				known = append(known, path)
			}
		}
		if dir == module || len(dir) <= len(module) {
			return known, nil
		}
		dir = filepath.Dir(dir)
	}
}

// joined is one text; a licence that several modules share word for word stands there once.
func joined(files map[string][]string) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("The program contains these modules. Their licences follow.\n")
	users, order := map[string][]string{}, []string{}
	for _, module := range slices.Sorted(maps.Keys(files)) {
		if len(files[module]) == 0 {
			return nil, fmt.Errorf("%s: no licence found", module)
		}
		fmt.Fprintf(&out, "  %s\n", module)
		for _, path := range slices.Sorted(slices.Values(files[module])) {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			key := strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))
			if users[key] == nil {
				order = append(order, key)
			}
			users[key] = append(users[key], module+" ("+filepath.Base(path)+")")
		}
	}
	for _, text := range order {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), text)
	}
	return out.Bytes(), nil
}
