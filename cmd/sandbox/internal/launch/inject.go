package launch

import (
	"os"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor/network"
	"github.com/codeagent/sandbox/hypervisor/network/inject"
)

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
			return nil, console.Usage(err)
		}
		rules = append(rules, r)
	}
	if l.Conf.Isolation == "vm" { // which has certificates of its own
		return injector(rules, control.TrustFile, nil)
	}
	bundles := control.TrustBundles()
	for _, file := range bundles {
		trusted, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		return injector(rules, file, trusted)
	}
	return nil, console.Usagef("network.inject: this machine has no file of trusted certificates (%s) to which the session's own could be added; install ca-certificates", bundles[0])
}

func injector(rules []inject.Rule, file string, trusted []byte) (network.Interceptor, error) {
	i, err := inject.New(rules, file, trusted)
	if err != nil {
		return nil, console.Usage(err)
	}
	return i, nil
}
