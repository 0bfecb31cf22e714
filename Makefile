# make build   bin/sandbox, static, with the guest program embedded
# make demo    see it work: delete a whole source tree, undo, compare
# make test    all tests, as CI runs them: 15 minutes on 2 cores
# make test-quick  the tests for daily work: 3 minutes; it says what it leaves out
# make fuzz    all fuzz targets, FUZZTIME each (1m): before a release
# make bench   the figures, each beside what it is compared with
# make soak    races of names, 40,000 tries each; then one session for MINUTES (30): builds, git, undo, and each time the trees are compared
# make check   vet, linters, cross-builds
# make newcomer  the README's commands in a Debian made for it (root)

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
ARCH    := $(shell $(GO) env GOARCH 2>/dev/null)
GUEST   := cmd/sandbox/internal/guestbin/embed/sandbox-guest-$(ARCH)
STATIC  := CGO_ENABLED=0 $(GO) build -trimpath
LINT    := golangci-lint
LINT_AT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: all build guest demo test test-quick fuzz bench soak check newcomer clean

all: build

build: guest
	$(STATIC) -tags embedguest -ldflags '-s -w -X main.version=$(VERSION)' -o bin/sandbox ./cmd/sandbox

guest:
	mkdir -p $(dir $(GUEST))
	$(STATIC) -ldflags '-s -w' -o $(GUEST) ./cmd/sandbox-guest

demo:
	tests/demo/run.sh

test:
	.ci/run

test-quick:
	tests/run.sh quick

fuzz:
	tests/run.sh fuzz

bench: build
	$(GO) run ./tests/bench

MINUTES ?= 30
soak: build
	SANDBOX_RACES=40000 $(GO) test -count=1 -run 'TestMBSwapped|TestMBReopened' -timeout 60m ./tests/suite/escape ./fsbridge/mediate
	$(GO) run ./tests/soak -minutes $(MINUTES)

check:
	$(GO) vet ./...
	command -v $(LINT) >/dev/null || $(GO) install $(LINT_AT)
	PATH="$$PATH:$$($(GO) env GOPATH)/bin" $(LINT) run ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 $(GO) build ./...
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build ./...

newcomer:
	tests/newcomer.sh

clean:
	rm -rf bin cmd/sandbox/internal/guestbin/embed/sandbox-guest-*
