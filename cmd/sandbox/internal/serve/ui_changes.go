package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/codeagent/sandbox/actors/frontend/ui"
)

// file runs a command about a level's configuration file. The organisation's and the user's are the same
// in all folders, so no folder's counts for them but for what it makes of them.
func (s sources) file(ctx context.Context, level, folder string, input []byte, args ...string) ([]byte, error) {
	args = append(args, "--level="+level, "--json")
	named, err := s.named()
	if err != nil {
		return nil, err
	}
	args = append(args, named...)
	dir := string(filepath.Separator)
	if folder != "" {
		dir = folder
		args = append(args, "-C", folder)
	}
	return s.sure(ctx, dir, input, args)
}

// named is the flag that names the configuration file of this process, if one does.
func (s sources) named() ([]string, error) {
	if s.launch.ConfigFile == "" {
		return nil, nil
	}
	file, err := filepath.Abs(s.launch.ConfigFile)
	return []string{"--config-file=" + file}, err
}

// sure runs this program, and returns an answer that can be read.
func (sources) sure(ctx context.Context, dir string, input []byte, args []string) ([]byte, error) {
	out, people, err := self(ctx, dir, input, args)
	if err != nil && people == "" && json.Valid(out) {
		return out, nil // it says in its answer what is wrong
	}
	return out, answered(out, people, err)
}

func (s sources) Text(ctx context.Context, level, folder string) (json.RawMessage, error) {
	return s.file(ctx, level, folder, nil, "config", "text")
}

func (s sources) PutText(ctx context.Context, t ui.TextChange) (json.RawMessage, error) {
	args := []string{"config", "write", "-"}
	if t.Expect == "" {
		args = append(args, "--print")
	} else {
		args = append(args, "--expect="+t.Expect)
	}
	return s.file(ctx, t.Level, t.Folder, []byte(t.Text), args...)
}

// buildGrace is what a build gets for tidying up after it was interrupted.
const buildGrace = 20 * time.Second

func (s sources) BuildImage(ctx context.Context, b ui.ImageBuild, said func(line string)) (json.RawMessage, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"guest", "build", "--json", "--log-level=info", "--log-format=text"}
	if b.RootFS {
		args = append(args, "--rootfs=debian")
	}
	if b.Force {
		args = append(args, "--force")
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = string(filepath.Separator)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = buildGrace
	var out bytes.Buffer
	cmd.Stdout = &out
	lines, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	last := ""
	read := bufio.NewReaderSize(lines, 16<<10)
	for {
		line, err := read.ReadSlice('\n')
		if text := strings.TrimSpace(string(line)); text != "" {
			last = text
			said(text)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			_, _ = io.Copy(io.Discard, lines)
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		if why := strings.TrimPrefix(last, "sandbox: "); why != "" && ctx.Err() == nil {
			err = ui.Refused(why)
		}
		return nil, err
	}
	if !json.Valid(out.Bytes()) {
		return nil, errors.New("the program's answer cannot be read")
	}
	return out.Bytes(), nil
}
