package launch

import (
	"os"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/exit"
	"github.com/codeagent/sandbox/hypervisor/network"
	"github.com/codeagent/sandbox/hypervisor/network/inject"
	"github.com/codeagent/sandbox/hypervisor/qemu"
)

// bundles are where distributions keep the certificates that programs trust.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", // Debian, Arch, Alpine, Nix
	"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora, RHEL
	"/etc/ssl/ca-bundle.pem",             // openSUSE
	"/etc/ssl/cert.pem",                  // others
}

// injector adds the headers of network.inject; nil if there are none.
func (l *Launcher) injector() (network.Interceptor, error) {
	texts := l.Conf.Network.Inject
	if len(texts) == 0 {
		return nil, nil
	}
	rules := make([]inject.Rule, 0, len(texts))
	for _, text := range texts {
		r, err := inject.Parse(text)
		if err == nil {
			r, err = r.Resolve(os.Getenv)
		}
		if err != nil {
			return nil, exit.Usage(err)
		}
		rules = append(rules, r)
	}
	if l.Conf.Isolation == "vm" { // which has certificates of its own
		return injector(rules, qemu.TrustFile, nil)
	}
	for _, file := range bundles {
		trusted, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		return injector(rules, file, trusted)
	}
	return nil, exit.Usagef("network.inject: this machine has no file of trusted certificates (%s) to which the session's own could be added; install ca-certificates", bundles[0])
}

func injector(rules []inject.Rule, file string, trusted []byte) (network.Interceptor, error) {
	i, err := inject.New(rules, file, trusted)
	if err != nil {
		return nil, exit.Usage(err)
	}
	return i, nil
}
