package wine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// buildPatience is longer than the download and the first start of wine take.
const buildPatience = 10 * time.Minute

// Paths in a bed.
const (
	loader  = "/usr/lib/wine/wine64"
	server  = "/usr/lib/wine/wineserver64"
	modules = "/usr/lib/x86_64-linux-gnu/wine/x86_64-windows"
	sample  = "prefix" // what machines begin with
	system  = "drive_c/windows/system32"
)

// packages that are unpacked whole. Wine depends on eighty more, for what nothing here uses.
const packages = "wine64 libc6 libc-bin libunwind8 liblzma5 libgcc-s1 libz-mingw-w64 libfreetype6 libpng16-16t64 libbrotli1 libbz2-1.0 zlib1g libfontconfig1 libexpat1"

// unpacked are the files of libwine that Go programs and their tests need, with what these load.
// Whoever misses one finds its name in what wine prints with WINEDEBUG=err+all.
const unpacked = `
advapi32.dll apisetschema.dll bcrypt.dll bcryptprimitives.dll combase.dll coml2.dll crypt32.dll dbghelp.dll dnsapi.dll gdi32.dll imm32.dll iphlpapi.dll
kernel32.dll kernelbase.dll msacm32.dll msvcrt.dll mswsock.dll netapi32.dll netutils.dll newdev.dll nsi.dll ntdll.dll ole32.dll oleaut32.dll
powrprof.dll psapi.dll rpcrt4.dll sechost.dll secur32.dll setupapi.dll shcore.dll shell32.dll shlwapi.dll ucrtbase.dll user32.dll userenv.dll
version.dll win32u.dll winmm.dll ws2_32.dll
mountmgr.sys ndis.sys netio.sys nsiproxy.sys ntoskrnl.exe
conhost.exe explorer.exe plugplay.exe rpcss.exe rundll32.exe services.exe start.exe svchost.exe wineboot.exe winedevice.exe
attrib.exe cmd.exe fc.exe find.exe findstr.exe fsutil.exe hostname.exe icacls.exe net.exe ping.exe reg.exe regedit.exe sc.exe
setx.exe sort.exe systeminfo.exe taskkill.exe tasklist.exe where.exe whoami.exe xcopy.exe`

// A Bed is an installed wine, which nobody changes.
type Bed struct {
	dir string // usr, and the sample prefix
}

// Open returns the bed in the user's cache directory and makes it first if there is none. An error says
// what this machine lacks.
func Open(ctx context.Context) (*Bed, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("wine runs in a chroot, which needs root")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "sandbox-tests-wine")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(packages + unpacked + hook("") + firstRegistry + strings.Join(boot, " ")))
	dir := filepath.Join(cache, fmt.Sprintf("%x", sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return &Bed{dir}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, buildPatience)
	defer cancel()
	fresh := filepath.Join(cache, "fresh")
	if err := errors.Join(os.RemoveAll(fresh), os.Mkdir(fresh, 0o755)); err != nil {
		return nil, err
	}
	if err := install(ctx, fresh); err != nil {
		return nil, err
	}
	if err := makeSample(ctx, fresh); err != nil {
		return nil, fmt.Errorf("the first start of wine: %w", err)
	}
	if err := os.Rename(fresh, dir); err != nil {
		return nil, err
	}
	return &Bed{dir}, nil
}

// hook is what mmdebstrap runs, with a directory of its own, when it knows the packages of trixie.
func hook(dir string) string {
	return `set -e
cd "$1"
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq -o APT::Sandbox::User=root -o Acquire::Retries=3 download libwine ` + packages + `
{ printf '%s\n' './usr/share/wine/nls/*' ./usr/share/wine/wine.inf '*/x86_64-unix/*'; printf '.` + modules + `/%s\n' ` + strings.Join(strings.Fields(unpacked), " ") + `; } >names
dpkg-deb --fsys-tarfile libwine_*.deb | tar -x -C '` + dir + `' --wildcards -T "$PWD/names"
rm libwine_*.deb names
for package in *.deb; do dpkg-deb -x "$package" '` + dir + `'; rm "$package"; done
cd '` + dir + `'
ln -s /usr/x86_64-w64-mingw32/lib/zlib1.dll '` + dir + modules + `/zlib1.dll'
rm -rf usr/share/doc usr/i686-w64-mingw32 usr/x86_64-w64-mingw32ucrt etc`
}

// install unpacks wine of Debian trixie below dir.
func install(ctx context.Context, dir string) error {
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return errors.New("mmdebstrap makes the chroot that wine runs in, and is missing: apt-get install mmdebstrap")
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", "--quiet", "--variant=custom", "--customize-hook="+hook(dir), "trixie", "/dev/null", "http://deb.debian.org/debian")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mmdebstrap could not fetch wine of Debian trixie from deb.debian.org: %w\n%s", err, out)
	}
	return nil
}

// firstRegistry says that there is no screen, before wine looks for one.
const firstRegistry = "WINE REGISTRY Version 2\n\n[Software\\\\Wine\\\\Drivers]\n\"Graphics\"=\"null\"\n\n" +
	"[Software\\\\Wine\\\\DllOverrides]\n\"mscoree\"=\"\"\n\"mshtml\"=\"\"\n\"winemenubuilder.exe\"=\"\"\n"

// boot makes the prefix complete.
var boot = []string{"wineboot", "--init"}

// makeSample makes the prefix that machines copy. Wine fills the Windows directory with copies of its files; they become links.
func makeSample(ctx context.Context, dir string) error {
	empty := filepath.Join(dir, sample)
	if err := os.MkdirAll(filepath.Join(empty, system), 0o755); err != nil {
		return err
	}
	// It is in another package, so wine does not copy it.
	if err := os.Symlink("/usr/x86_64-w64-mingw32/lib/zlib1.dll", filepath.Join(empty, system, "zlib1.dll")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(empty, "user.reg"), []byte(firstRegistry), 0o644); err != nil {
		return err
	}
	if err := filepath.WalkDir(empty, func(name string, _ os.DirEntry, _ error) error { return os.Lchown(name, nobody, nobody) }); err != nil {
		return err
	}
	m, err := (&Bed{dir}).Start(Options{cold: true})
	if err != nil {
		return err
	}
	defer m.Close()
	first := m.Command(ctx, boot[0], boot[1:]...)
	first.Dir = m.prefix() // there is no drive yet
	out, err := first.CombinedOutput()
	if err == nil {
		err = m.run(ctx, server, "-w") // the server writes the registry when nobody needs it any more
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	if err := linkModules(dir, m.prefix()); err != nil {
		return err
	}
	if err := os.RemoveAll(empty); err != nil {
		return err
	}
	return exec.CommandContext(ctx, "cp", "-a", m.prefix(), empty).Run()
}

// linkModules puts links to the bed's files in place of the copies in a prefix.
func linkModules(dir, prefix string) error {
	system := filepath.Join(prefix, system)
	entries, err := os.ReadDir(system)
	if err != nil {
		return err
	}
	for _, e := range entries {
		copied, err := os.ReadFile(filepath.Join(system, e.Name()))
		if err != nil {
			continue // a directory
		}
		ours, err := os.ReadFile(filepath.Join(dir, modules, e.Name()))
		if err != nil || !bytes.Equal(copied, ours) {
			continue
		}
		name := filepath.Join(system, e.Name())
		if err := errors.Join(os.Remove(name), os.Symlink(path.Join(modules, e.Name()), name)); err != nil {
			return err
		}
	}
	return nil
}
