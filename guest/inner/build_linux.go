//go:build amd64 || arm64

package inner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// builder is the state of the build stage.
type builder struct {
	conn   control.FDConn
	in     *json.Decoder
	plan   control.Plan
	fuse   []*os.File           // by share, until mounted
	clones map[control.Text]int // detached trees, by their source
	sent   int                  // shares handed over
	served int                  // shares that the supervisor serves
	files  int                  // names used below hiddenDir
}

// build makes the jail's view, starts init and waits for its end.
func build() error {
	conn, err := channel(control.FDSetup)
	if err != nil {
		return err
	}
	unix.CloseOnExec(control.FDControl)
	unix.CloseOnExec(control.FDProgram)
	b := &builder{conn: conn, in: json.NewDecoder(conn), clones: make(map[control.Text]int)}
	proc, err := b.run()
	if err != nil {
		return errors.Join(err, b.report(control.Report{Error: err.Error()}))
	}
	go func() {
		// The supervisor says nothing more; its end is ours.
		var m control.ServedMessage
		for b.in.Decode(&m) == nil {
		}
		_ = proc.Kill()
	}()
	_, err = proc.Wait()
	return err
}

func (b *builder) run() (*os.Process, error) {
	if err := b.in.Decode(&b.plan); err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return nil, err
	}
	unix.Umask(0o022)
	if err := b.makeView(); err != nil {
		return nil, err
	}
	proc, err := b.startInit()
	if err != nil {
		return nil, fmt.Errorf("creating the namespaces: %w", err)
	}
	if err := b.report(control.Report{Ready: true, PID: proc.Pid}); err != nil {
		_ = proc.Kill()
		return nil, err
	}
	return proc, nil
}

func (b *builder) report(r control.Report, files ...*os.File) error {
	p, err := json.Marshal(r)
	if err != nil {
		return err
	}
	p = append(p, '\n')
	if len(files) > 0 {
		return b.conn.WriteFDs(p, files)
	}
	_, err = b.conn.Write(p)
	return err
}

// awaitServed returns when the supervisor serves every share it was given.
func (b *builder) awaitServed() error {
	for b.served < b.sent {
		var m control.ServedMessage
		if err := b.in.Decode(&m); err != nil {
			return err
		}
		b.served++
	}
	return nil
}

// initConfig is what the later stages need of the plan.
type initConfig struct {
	Hostname string         `json:"hostname"`
	Umask    int            `json:"umask"`
	Debug    bool           `json:"debug"`
	Env      []control.Text `json:"env"`
	Warnings []string       `json:"warnings"`
}

// initCaps are what the init stage needs; it has none left at its end.
var initCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}

func (b *builder) startInit() (*os.Process, error) {
	cfg, err := json.Marshal(initConfig{
		Hostname: b.plan.Hostname, Umask: b.plan.Umask, Debug: b.plan.Debug, Env: b.plan.Env, Warnings: b.plan.Warnings,
	})
	if err != nil {
		return nil, err
	}
	ctl := os.NewFile(control.FDControl, "control")
	defer ctl.Close()
	uid, gid := b.plan.UID, b.plan.GID
	return os.StartProcess("/proc/self/exe", []string{control.GuestProgram, stageInit}, &os.ProcAttr{
		Env:   []string{envInit + "=" + string(cfg), "GOMAXPROCS=" + strconv.Itoa(2)},
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, ctl},
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
				unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
			Credential:  &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: true},
			AmbientCaps: initCaps,
			Setsid:      true,
			Pdeathsig:   syscall.SIGKILL,
		},
	})
}
