# For those who develop dcm. On a fresh machine start with ./install.sh --test,
# which installs what these targets need.

SHELL       = /bin/bash
.SHELLFLAGS = -eu -o pipefail -c

GO      ?= go
DIST    ?= dist
ARCHES  ?= amd64 arm64
# As root in somebody's checkout, too.
GIT     = git -c safe.directory=$(CURDIR)
# A release is a tag vX.Y.Z; what is built after it sorts after it, in DEB and RPM.
VERSION ?= $(shell $(GIT) describe --tags --match 'v[0-9]*' 2>/dev/null | \
	sed -e 's/^v//' -e 's/-\([0-9]*\)-g/+\1.g/' | grep . || echo 0.1.0)
# The packages are the same bytes whoever builds them.
SOURCE_DATE_EPOCH ?= $(shell $(GIT) log -1 --format=%ct 2>/dev/null || date --reference=go.sum +%s)

RECIPE ?= packaging/nfpm.yaml
# Each build of packages has a place of its own, so that two do not meet.
STAGE = $(DIST)/stage

export VERSION SOURCE_DATE_EPOCH STAGE
export CGO_ENABLED = 0
export GOFLAGS = -buildvcs=false

LDFLAGS  = -s -w -X main.version=$(VERSION)
PROGRAMS = dcm dcm-smi dcm-sim

.PHONY: build packages install demo test race soak bench lint lint-go lint-sh lint-packages clean

build:
	for program in $(PROGRAMS); do \
		$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/$$program ./cmd/$$program || exit 1; \
	done

packages:
	mkdir -p $(DIST)
	rm -f $(DIST)/dcm[-_]*.deb $(DIST)/dcm[-_]*.rpm
	for arch in $(ARCHES); do \
		packaging/stage.sh $$arch || exit 1; \
		for packager in deb rpm; do \
			ARCH=$$arch $(GO) tool nfpm package -f $(RECIPE) -p $$packager -t $(DIST)/ || exit 1; \
		done; \
	done

install:
	./install.sh

# The simulated node and the container are the tests' own.
demo: packages
	$(GO) run ./internal/e2e/demo -dist $(DIST)

# Everything, as root. `go test ./...` runs what needs neither root nor a container.
test: race
	DCM_E2E=require $(GO) test -count=1 -timeout=20m -json ./... | $(GO) run ./internal/e2e/summary

# The packages with goroutines, under the race detector, which needs a C compiler. The
# fault matrix goes by deadlines that are too short for its pace.
race:
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout=10m -skip TestFaultMatrix $(RACY:%=./internal/%)

RACY = apply bus daemon event metrics report systemd watch

# The random trials for as long as it takes to believe in it.
soak:
	DCM_E2E=require DCM_SOAK=$(SOAK) $(GO) test -count=1 -timeout=24h -run TestNode/random -v ./internal/e2e

SOAK ?= 10m

# The packages' own benchmarks, then dcm in a container beside the least that the
# same work can cost. Never fails for a figure: it depends on what else runs.
bench: ARCHES = $(shell $(GO) env GOARCH)
bench: packages
	$(GO) test -run '^$$' -bench . -benchmem -benchtime=0.2s \
		$$(grep -rl --include='*_test.go' '^func Benchmark' cmd internal | xargs -n1 dirname | sort -u | sed 's|^|./|')
	$(GO) run ./internal/e2e/bench -dist $(DIST)

lint: lint-go lint-sh lint-packages

lint-go:
	test -z "$$(gofmt -l cmd internal)" || { gofmt -d cmd internal; exit 1; }
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK) ./...

STATICCHECK = v0.8.2

lint-sh:
	shellcheck install.sh .ci/run internal/e2e/node/usr/local/lib/* internal/e2e/node/usr/local/bin/*
	shellcheck --shell=sh internal/e2e/boot.sh packaging/stage.sh packaging/deb/p* packaging/rpm/p* packaging/rpm/lint.sh

# A tool that the distribution does not have is said to be missing, no more.
lint-packages: packages
	if command -v lintian; then lintian --fail-on error $(DIST)/*.deb; fi
	if command -v rpmlint; then packaging/rpm/lint.sh $(DIST)/*.rpm; fi

clean:
	rm -rf bin $(DIST)
