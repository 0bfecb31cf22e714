package container

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
)

//go:embed seccomp.json
var defaultSeccomp []byte

// defaultCapabilities are root's in a container.
var defaultCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

// Spec is a container.
type Spec struct {
	// UID runs in it; everybody but root without capabilities.
	UID int
	// Capabilities are added to the default ones, for root, and to the bounding set.
	Capabilities []string
	// Unconfined leaves the seccomp profile away; Seccomp is another one than the default.
	Unconfined bool
	Seccomp    []byte
	// Unmasked shows all of /proc, and NoNewPrivileges lets no program gain rights.
	Unmasked, NoNewPrivileges bool
	// UserNamespace gives it one, of 65,536 ids: FirstID is the first of them outside.
	UserNamespace bool
	// FUSE makes the node of /dev/fuse, and lets it be opened if Device.
	FUSE, Device bool
	// Work is mounted at /work, writable, and Programs (files of this machine) at
	// /opt/NAME, read-only.
	Work     string
	Programs map[string]string
	// Env is added to the environment.
	Env []string
}

// FirstID is root's id of a container with a user namespace, as this machine sees it.
const FirstID = 200000

// Require ends the test unless containers can be run.
func Require(t testing.TB) {
	t.Helper()
	require.Root(t)
	if _, err := exec.LookPath("runc"); err != nil {
		require.Missing(t, "runc", "apt-get install runc")
	}
}

// patience, in seconds, ends a container that hangs.
const patience = "300"

var containers atomic.Int64

// Run runs a shell script in a container and returns what it printed and its exit status.
func Run(t testing.TB, s Spec, script string) (stdout, stderr string, code int) {
	t.Helper()
	bundle := t.TempDir()
	c := s.config(t, bundle, script)
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprintf("sandbox-test-%d-%d", os.Getpid(), containers.Add(1))
	cmd := exec.Command("runc", "--root", filepath.Join(bundle, "state"), "run", "--bundle", bundle, id)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

type object = map[string]any

// config is the runtime specification's config.json.
func (s Spec) config(t testing.TB, bundle, script string) object {
	root := filepath.Join(bundle, "rootfs")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	// TempDir and what is above it are private; the container's own root would be, too.
	for _, dir := range []string{bundle, filepath.Dir(bundle)} { // user namespaces' root goes through both
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if s.UserNamespace {
		if err := os.Chown(root, FirstID, FirstID); err != nil {
			t.Fatal(err)
		}
	}
	caps := []string{}
	if s.UID == 0 {
		caps = append(append(caps, defaultCapabilities...), s.Capabilities...)
	}
	bounding := append(append([]string{}, defaultCapabilities...), s.Capabilities...)
	ambient := []string{}
	id := object{"uid": s.UID, "gid": s.UID}
	c := object{
		"ociVersion": "1.0.2",
		"process": object{
			"user": id, "args": []string{"/usr/bin/timeout", "-s", "KILL", patience, "/bin/sh", "-c", script}, "cwd": "/", "noNewPrivileges": s.NoNewPrivileges,
			"env": append([]string{"PATH=/opt:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/home"}, s.Env...),
			"capabilities": object{
				"bounding": bounding, "effective": caps, "permitted": caps, "inheritable": []string{}, "ambient": ambient,
			},
		},
		"root":     object{"path": "rootfs", "readonly": false},
		"hostname": "container",
		"mounts":   s.mounts(t, root),
		"linux":    s.linux(t),
	}
	return c
}

func (s Spec) mounts(t testing.TB, root string) []object {
	tmpfs := func(to, options string) object {
		return object{"destination": to, "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "nodev", options}}
	}
	bind := func(to, from, option string) object {
		return object{"destination": to, "type": "none", "source": from, "options": []string{"rbind", "rprivate", option}}
	}
	m := []object{
		{"destination": "/proc", "type": "proc", "source": "proc", "options": []string{"nosuid", "noexec", "nodev"}},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		tmpfs("/dev/shm", "mode=1777"), tmpfs("/tmp", "mode=1777"), tmpfs("/run", "mode=755"), tmpfs("/home", "mode=1777"),
	}
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc"} {
		if target, err := os.Readlink(dir); err == nil {
			if err := os.Symlink(target, filepath.Join(root, dir)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := os.Stat(dir); err == nil {
			m = append(m, bind(dir, dir, "ro"))
		}
	}
	for name, from := range s.Programs {
		m = append(m, bind("/opt/"+name, from, "ro"))
	}
	if s.FUSE && s.UserNamespace { // no node can be made there: engines show the machine's, whose mode differs
		m = append(m, bind("/dev/fuse", fuseNode(t, filepath.Dir(root)), "rw"))
	}
	if s.Work != "" {
		m = append(m, bind("/work", s.Work, "rw"))
	}
	return m
}

// fuseNode makes a node of the device in dir that everybody may open.
func fuseNode(t testing.TB, dir string) string {
	node := filepath.Join(dir, "fuse")
	if err := unix.Mknod(node, unix.S_IFCHR, int(unix.Mkdev(10, 229))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(node, 0o666); err != nil {
		t.Fatal(err)
	}
	return node
}

func (s Spec) linux(t testing.TB) object {
	var seccomp object
	profile := defaultSeccomp
	if s.Seccomp != nil {
		profile = s.Seccomp
	}
	if err := json.Unmarshal(profile, &seccomp); err != nil {
		t.Fatal(err)
	}
	namespaces := []object{{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}, {"type": "cgroup"}}
	devices := []object{{"allow": false, "access": "rwm"}}
	l := object{
		"maskedPaths":   []string{"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"},
		"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		"cgroupsPath":   "/sandbox-test-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(containers.Load(), 10),
	}
	if !s.Unconfined {
		l["seccomp"] = seccomp
	}
	if s.Unmasked {
		delete(l, "maskedPaths")
		delete(l, "readonlyPaths")
	}
	if s.FUSE && !s.UserNamespace {
		l["devices"] = []object{{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229, "fileMode": 0o666, "uid": 0, "gid": 0}}
	}
	if s.Device {
		devices = append(devices, object{"allow": true, "type": "c", "major": 10, "minor": 229, "access": "rwm"})
	}
	if s.UserNamespace {
		namespaces = append(namespaces, object{"type": "user"})
		ids := []object{{"containerID": 0, "hostID": FirstID, "size": 65536}}
		l["uidMappings"], l["gidMappings"] = ids, ids
	}
	l["resources"], l["namespaces"] = object{"devices": devices}, namespaces
	return l
}
