package guest

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/filesystems"
	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
)

//go:embed init
var initScript []byte

//go:embed inside
var insideScript []byte

// allEnv has the whole battery done, which takes six minutes.
const allEnv = "SANDBOX_FILESYSTEMS_ALL"

// TestGuest goes through the battery on 9p and on NFS, and tries names in another case on an ext4 to which case does not count.
func TestGuest(t *testing.T) {
	require.Root(t)
	qemu := require.Program(t, "qemu-system-x86_64", "qemu-system-x86")
	for _, p := range []struct{ name, pkg string }{
		{"setfacl", "acl"}, {"setfattr", "attr"}, {"chattr", "e2fsprogs"}, {"mkfs.ext4", "e2fsprogs"}, {"busybox", "busybox-static"},
	} {
		require.Program(t, p.name, p.pkg)
	}
	image := guestimage.WithModules(t, "sandbox-tests-filesystems", initScript,
		"9p", "9pnet_virtio", "nfsd", "nfsv4", "ext4", "crc32c_generic", "loop")
	work := t.TempDir()
	check(t, os.WriteFile(filepath.Join(work, "inside"), insideScript, 0o755))
	check(t, os.WriteFile(filepath.Join(work, "settings"), fmt.Appendf(nil, "export %s=%q\n", allEnv, os.Getenv(allEnv)), 0o644))
	battery := exec.Command("go", "test", "-vet=off", "-ldflags=-w", "-c", "-o", filepath.Join(work, "battery"), "github.com/codeagent/sandbox/tests/suite/filesystems")
	if out, err := battery.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", battery.Args, err, out)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, qemu, machine(work)...)
	cmd.ExtraFiles = []*os.File{image.Kernel, image.Initrd}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, t.Output()), t.Output()
	err := cmd.Run()
	check(t, err)
	text := out.String()
	t.Logf("%v of processor time", cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	for _, want := range []string{
		"--- PASS: TestFileSystems/" + string(filesystems.NineP) + " ", "--- PASS: TestFileSystems/" + string(filesystems.NFS) + " ",
		"--- PASS: TestCaseless/" + string(filesystems.Casefold) + " ", "--- PASS: TestCaselessCollisions/" + string(filesystems.Casefold) + " ", "the battery ended with 0 ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the guest did not say %q", want)
		}
	}
}

// machine is QEMU's command line: a processor, the console, and the two directories. Without KVM even where
// there is one: a test is the same everywhere.
func machine(work string) []string {
	return []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-machine", "q35,smm=off,sata=off,smbus=off,vmport=off,accel=tcg", "-cpu", "max,-erms,-fsrm", "-smp", "1", "-m", "768M",
		"-kernel", "/proc/self/fd/3", "-initrd", "/proc/self/fd/4",
		"-append", "console=ttyS0 quiet panic=-1 random.trust_cpu=on no_timer_check cryptomgr.notests init_on_alloc=0 mitigations=off " +
			"initcall_blacklist=load_system_certificate_list,init_encrypted lsm=landlock,yama",
		"-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap",
		"-virtfs", "local,path=" + strings.ReplaceAll(work, ",", ",,") + ",mount_tag=work,security_model=passthrough",
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
