#!/usr/bin/env bash
# Tries the gateway and packaging/kubernetes at a real API server and etcd, with agent-sandbox's definitions and controller (tests/suite/cluster).
#
#   AGENT_SANDBOX=DIR tests/cluster.sh [ARGUMENT...]     as root; the arguments are go test's
#
# DIR has the sources of kubernetes-sigs/agent-sandbox. The API server and etcd are built from the Go module proxy, once, into
# ${XDG_CACHE_HOME:-~/.cache}/sandbox-tests-cluster: 2 GiB of modules and a quarter of an hour on two processors.
set -euo pipefail
cd "$(dirname "$0")/.."
kubernetes=1.37.2 etcd=3.7.3

if [ ! -d "${AGENT_SANDBOX:-}/k8s/crds" ]; then
    cat >&2 <<'HOW'
cluster: say where the sources of agent-sandbox are (with k8s/crds and cmd/agent-sandbox-controller in them):
  git clone --depth 1 --branch v0.5.6 https://github.com/kubernetes-sigs/agent-sandbox /tmp/agent-sandbox
  AGENT_SANDBOX=/tmp/agent-sandbox make test-cluster
HOW
    exit 2
fi
AGENT_SANDBOX=$(realpath "$AGENT_SANDBOX") && export AGENT_SANDBOX
export SANDBOX_CLUSTER=${XDG_CACHE_HOME:-$HOME/.cache}/sandbox-tests-cluster/kubernetes-$kubernetes-etcd-$etcd
mkdir -p "$SANDBOX_CLUSTER"

# Nobody measures these programs, and the compiler takes half of the time if it optimises nothing.
build() { # PROGRAM PACKAGE FLAG [LINKER'S FLAGS], in the module's directory
    echo "cluster: building $1"
    GOWORK=off CGO_ENABLED=0 nice -n 10 go build "$3" -buildvcs=false '-gcflags=all=-N -l' -ldflags "-s -w ${4:-}" -o "$SANDBOX_CLUSTER/$1.part" "$2"
    mv "$SANDBOX_CLUSTER/$1.part" "$SANDBOX_CLUSTER/$1"
}

if [ ! -x "$SANDBOX_CLUSTER/etcd" ] || [ ! -x "$SANDBOX_CLUSTER/kube-apiserver" ]; then
    module=$(mktemp -d)
    trap 'rm -rf "$module"' EXIT
    # Kubernetes' own go.mod has its parts beside it; the proxy has each of them as a module, with the version 0 in place of 1.
    go mod download "k8s.io/kubernetes@v$kubernetes"
    {
        printf 'module cluster\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v%s\nrequire go.etcd.io/etcd/server/v3 v%s\n' "$kubernetes" "$etcd"
        sed -n "s|^\t\(k8s.io/[a-z-]*\) => ./staging/.*|replace \1 => \1 v0.${kubernetes#1.}|p" "$(go env GOMODCACHE)/cache/download/k8s.io/kubernetes/@v/v$kubernetes.mod"
    } >"$module/go.mod"
    (
        cd "$module"
        build etcd go.etcd.io/etcd/server/v3 -mod=mod
        version=k8s.io/component-base/version
        build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver -mod=mod \
            "-X $version.gitVersion=v$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=$(cut -d. -f2 <<<"$kubernetes")"
    )
fi
(cd "$AGENT_SANDBOX" && build agent-sandbox-controller ./cmd/agent-sandbox-controller -mod=readonly)

exec go test -count=1 -vet=off -timeout 30m -tags cluster "$@" ./tests/suite/cluster
