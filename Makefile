# make build   bin/sandbox, static, with the guest program embedded
# make demo    see it work: delete a whole source tree, undo, compare
# make wine-demo  the same by sandbox.exe, under wine, in an emulated Linux guest (root)
# make test    all tests, as CI runs them: half an hour on 2 cores, an hour and a half on slow ones
# make test-quick  the tests for daily work: 3 to 4 minutes; it says what it leaves out
# make test-cluster  the gateway and the manifests at a real API server of Kubernetes, with AGENT_SANDBOX=DIR (root; the first time a quarter of an hour, to build it)
# make fuzz    all fuzz targets, FUZZTIME each (1m): before a release
# make bench   the figures, each beside what it is compared with
# make soak    races of names, 40,000 tries each; then for MINUTES (30) each: random histories on file systems of several kinds (root), and one session: builds, git, undo, and each time the trees are compared
# make check   vet, linters, cross-builds
# make screenshots  the pictures of docs/ui.md anew, from the tests
# make release  packages, archives, an OCI image, guest images and checksums in dist/, of what is checked out; PUBLISH=1 for a tag, to GitHub
# make newcomer  the README's commands in a Debian made for it (root)

GO      ?= go
# Of a release; what is not tagged is a build on the way to the version in CHANGELOG.md.
VERSION ?= $(shell git describe --tags --dirty 2>/dev/null)
COMMIT  ?= $(shell git log -1 --format=%H 2>/dev/null)
DATE    ?= $(shell TZ=UTC git log -1 --date=iso-strict-local --format=%cd 2>/dev/null)
EPOCH   ?= $(shell git log -1 --format=%ct 2>/dev/null)
ARCH    := $(shell $(GO) env GOARCH 2>/dev/null)
EMBED   := cmd/sandbox/internal/launch/embed
GUEST   := $(EMBED)/sandbox-guest-$(ARCH)
STATIC  := CGO_ENABLED=0 $(GO) build -trimpath
LINT    := golangci-lint
LINT_AT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The newest GoReleaser that Go 1.26 builds and whose modules the module proxy has; its nfpm, which
# makes the packages, is the one that tests/suite/release runs.
GORELEASER_AT := github.com/goreleaser/goreleaser/v2@v2.15.1
CYCLONEDX_AT  := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

.PHONY: all build guest guests images extras release-tools release demo wine-demo test test-quick fuzz bench soak promises check screenshots newcomer clean test-cluster

all: build

# The linker writes the file page by page, and so the kernel maps it: each start takes 2 ms longer than with a copy.
build: guest
	$(STATIC) -tags embedguest -ldflags '-s -w $(if $(VERSION),-X main.version=$(VERSION)) -X main.commit=$(COMMIT) -X main.date=$(DATE)' -o bin/sandbox ./cmd/sandbox
	cp bin/sandbox bin/sandbox.copy && mv bin/sandbox.copy bin/sandbox

guest:
	mkdir -p $(dir $(GUEST))
	$(STATIC) -ldflags '-s -w' -o $(GUEST) ./cmd/sandbox-guest

# A release: GoReleaser (.goreleaser.yaml) calls guests and extras before it builds.
release-tools: bin/tools/goreleaser bin/tools/cyclonedx-gomod

bin/tools/goreleaser bin/tools/cyclonedx-gomod: Makefile
	$(call INSTALL,$(if $(findstring goreleaser,$@),$(GORELEASER_AT),$(CYCLONEDX_AT)))
	touch $@

# go install asks the proxy what is new; without a network the module cache answers that.
INSTALL = GOBIN=$(CURDIR)/bin/tools $(GO) install $(1) || \
	    GOBIN=$(CURDIR)/bin/tools GOSUMDB=off GOPROXY=file://$$($(GO) env GOMODCACHE)/cache/download $(GO) install $(1)

guests:
	mkdir -p $(EMBED)
	for arch in amd64 arm64; do \
	    GOOS=linux GOARCH=$$arch $(STATIC) -ldflags '-s -w' -o $(EMBED)/sandbox-guest-$$arch ./cmd/sandbox-guest || exit; done

# What packages have beside the program.
EXTRAS  ?= bin/extras
PROGRAM ?= $(GO) run ./cmd/sandbox
extras:
	rm -rf $(EXTRAS)
	$(PROGRAM) manual $(EXTRAS) --date $(firstword $(subst T, ,$(DATE)))
	gzip -n -9 $(EXTRAS)/man1/*
	gzip -n -9 -c CHANGELOG.md >$(EXTRAS)/changelog.gz
	$(GO) run ./tests/cmd/distfiles licences $(EXTRAS)/licences

# Guest images for machines without apt, as archives, of the newest packages that Debian's apt has, and the sources of those packages (170 MB), which
# belong beside them. Where that is not, IMAGES is a directory that has them.
IMAGES ?=
images:
	rm -rf bin/images
	for arch in amd64 arm64; do \
	    $(PROGRAM) guest build --generic --arch $$arch --image-dir bin/images --archive bin/images/guest_$$arch.tar.zst || exit; done
	$(GO) run ./tests/cmd/distfiles sources bin/images || { $(if $(PUBLISH),exit 1,echo 'images: nobody may publish these without their sources' >&2); }
	cd bin/images && sha256sum guest_*.tar* >checksums.txt

release: export COMMIT := $(COMMIT)
release: export DATE := $(DATE)
release: export EPOCH := $(EPOCH)
release: export PUBLISH := $(PUBLISH)
release: release-tools $(if $(IMAGES),,images)
	PATH="$(CURDIR)/bin/tools:$$PATH" goreleaser release --clean $(if $(PUBLISH),,--snapshot)
	$(GO) run ./tests/cmd/distfiles release dist $(or $(IMAGES),bin/images)

demo:
	tests/demo/run.sh

# What the demo shows, by sandbox.exe: under wine, on a folder of drive C:, in an emulated Linux guest. As root: wine runs in a chroot.
wine-demo: guest
	$(GO) test -count=1 -v -run '^TestUndoOnWindows$$' ./tests/suite/wine

test:
	.ci/run

test-quick:
	tests/run.sh quick

test-cluster: build
	tests/cluster.sh

fuzz:
	tests/run.sh fuzz

bench: build
	$(GO) run ./tests/bench
	$(GO) test -vet=off -run '^$$' -bench 'Capture|Copy|Restore|Compress$$|Promotion|Take' ./fsbridge/undolog ./tests/kit/treesnap

screenshots: build
	SANDBOX_UI_DOCUMENTS=$(CURDIR)/docs/ui $(GO) test -count=1 ./tests/suite/ui

MINUTES ?= 30
soak: build
	SANDBOX_RACES=40000 $(GO) test -count=1 -run 'Swapped|SwapRace|TestMBReopened|Race$$|Racing|TestRenamesInside|TestProtectedWrites|TestLayer' -timeout 60m ./tests/suite/escape ./fsbridge/...
	if [ $$(id -u) = 0 ]; then $(GO) test -count=1 -v -run 'TestMix$$' -timeout 0 ./tests/suite/mix -args -for $(MINUTES)m; fi
	$(GO) run ./tests/soak -minutes $(MINUTES)

# Root's sessions and those of root by sudo; if root runs it, those of an ordinary user after them.
promises: build
	SANDBOX_PROMISES=all $(GO) test -count=1 -timeout 60m ./tests/suite/promises
	if [ $$(id -u) = 0 ]; then dir=$$(mktemp -d) && chmod 755 $$dir && trap "rm -r $$dir" EXIT && \
		$(GO) build -o $$dir/asuser ./tests/cmd/asuser && SANDBOX_PROMISES=all $(GO) test -count=1 -timeout 60m -exec $$dir/asuser ./tests/suite/promises; fi

check:
	$(GO) vet ./...
	command -v $(LINT) >/dev/null || $(GO) install $(LINT_AT)
	PATH="$$PATH:$$($(GO) env GOPATH)/bin" $(LINT) run ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 $(GO) build ./...
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build ./...

newcomer:
	tests/newcomer.sh

clean:
	rm -rf bin dist $(EMBED)/sandbox-guest-*
