# The targets for developers. On a fresh machine start with ./install.sh --test: it
# installs what they need. 'make help' lists the targets.

SHELL       = /bin/bash
.SHELLFLAGS = -eu -o pipefail -c

GO      ?= go
DIST    ?= dist
ARCHES  ?= amd64 arm64
PACKAGERS ?= deb rpm
# Git refuses a checkout of another user, which is what sudo makes of it.
GIT     = git -c safe.directory=$(CURDIR)
# A release is a tag vX.Y.Z. A later build sorts after it, in DEB and RPM.
VERSION ?= $(shell packaging/version.sh)
# Packages are reproducible: the time stamp is that of the commit.
SOURCE_DATE_EPOCH ?= $(shell $(GIT) log -1 --format=%ct 2>/dev/null || date --reference=go.sum +%s)

RECIPE ?= packaging/nfpm.yaml
# Two recipes can be built concurrently if each sets its own STAGE.
STAGE = $(DIST)/stage
PRODUCT = $(DIST)/product

export VERSION SOURCE_DATE_EPOCH STAGE
export CGO_ENABLED = 0
# One set of flags for the programs, the packages and the tests, so that Go compiles each package once.
export GOFLAGS = -buildvcs=false -trimpath

LDFLAGS  = -s -w -X main.version=$(VERSION)
PROGRAMS = dcm dcm-service dcm-smi dcm-nvml dcm-guard dcm-sim
# A separate module, so that no Kubernetes library is linked into the host's programs.
NESTED   = cmd/dcm-kubernetes

.PHONY: help build packages hardware-kit release test-release install demo node check test test-all race roots surface scale scale-leases soak soak-leases soak-make test-vm soak-vm vm test-ansible test-slurm test-nvidia test-nvml test-page screenshots fuzz bench lint lint-source lint-go lint-arm64 lint-vuln lint-sh lint-wording lint-packages lint-packed clean

build:
	for program in $(PROGRAMS); do \
		$(GO) build -ldflags '$(LDFLAGS)' -o bin/$$program ./cmd/$$program || exit 1; \
	done
	$(GO) -C $(NESTED) build -ldflags '$(LDFLAGS)' -o $(CURDIR)/bin/dcm-kubernetes .

# The text of 'make help' is the lines that begin with "#:".
help:
	@sed -n 's/^#: \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

#: Build
#:   build             the programs, in bin/
#:   packages          DEB and RPM for amd64 and arm64, in dist/
#:   image host-image  the images of the Kubernetes agent and of dcm, in dist/
#:   push              image, and copy it to REGISTRY; needs skopeo; TAG=latest
#:   chart             the Helm chart of the Kubernetes agent, in dist/
#:   docs              the manual as HTML with an index, in dist/docs; needs mandoc
#:   release           packages, bills of materials and signed checksums of the tag of HEAD, in
#:                     dist/release; KEY names the OpenPGP key
#:   hardware-kit      an archive that records the GPUs of any host, in dist/
#:   install           as ./install.sh
#:   clean             remove bin/, dist/ and the cached containers in /var/cache/dcm-test
#:
#: Check and test
#:   check             what to run before a commit, without root: lint-go and the tests of all packages,
#:                     with cached results
#:   demo              as ./install.sh --demo, without installing what it needs
#:   node              a shell on a simulated node with dcm; as root; KIND=mi300x-8, or another
#:                     of 'make kinds'
#:   kinds             list the kinds of simulated nodes
#:   lint              gofmt, vet, staticcheck, govulncheck, shellcheck, lintian, rpmlint
#:   test              the tests of each commit, those in containers included; as root
#:   test-all          every test and every part: hours; before a release; as root
#:   race              the packages with goroutines, under the race detector
#:   histories         random histories of a host in one process, for HISTORIES=1m
#:   fuzz              each fuzz target for FUZZ=10s
#:   surface           record the visible surface in internal/testkit/surface/golden
#:   tested-on         write the section TESTED ON of dcm-tested(7) from internal/testkit/testedon
#:   bench             dcm's overhead compared with the minimum for the same work
#:
#: Test with more parts; as root
#:   scale             64 GPUs and 500 units, a thousand edits, a file of 10 MB
#:   scale-leases      LEASES=2000 leases: memory of dcm and PID 1 stays flat
#:   soak              random edits, kills, re-executions and reboots for SOAK=10m
#:   soak-leases       leases that come and go, for SOAK=10m
#:   soak-make         leases that make their partitions, for SOAK=10m or SOAK=5000 leases
#:   test-vm           a real Debian kernel in QEMU, with modules that stand in for GPUs and
#:                     driver; needs qemu-system-x86 qemu-utils mmdebstrap cpio; VM=trixie;
#:                     ALL=1 adds the long scenarios
#:   soak-vm           random kills and power cuts on such a node, for SOAK=10m
#:   vm                a root shell on such a node; KERNEL=trixie
#:   test-nvidia       every MIG geometry on every kind of node
#:   test-nvml         dcm-nvml with the real libnvidia-ml 535 and 550, without a GPU
#:   test-release      a release with a tag and a key of the test
#:   test-ansible      the role, with the real Ansible
#:   test-slurm        jobs that change their node, with the real slurmctld and slurmd
#:   test-kubernetes   the agent, with a real API server
#:   test-page         the Cockpit page, with a real browser; screenshots keeps its pictures
#:   test-host-image   dcm's image, with podman

packages:
	mkdir -p $(DIST)
	rm -f $(DIST)/dcm[-_]*.deb $(DIST)/dcm[-_]*.rpm $(DIST)/cockpit-dcm*.deb $(DIST)/cockpit-dcm*.rpm
	for arch in $(ARCHES); do \
		packaging/stage.sh $$arch || exit 1; \
		for packager in $(PACKAGERS); do \
			ARCH=$$arch packaging/pack.sh $(RECIPE) $$packager $(DIST)/ || exit 1; \
		done; \
	done
	for packager in $(PACKAGERS); do \
		packaging/pack.sh packaging/cockpit/nfpm.yaml $$packager $(DIST)/ || exit 1; \
	done

.PHONY: docs
docs:
	packaging/docs.sh $(DIST)/docs

.PHONY: image push chart test-kubernetes host-image test-host-image

# The agent with a real API server and its controllers. The first run compiles them into
# the cache, which takes about 15 minutes. The first test has dcm in a container, the
# second one simulates up to a thousand nodes.
test-kubernetes:
	DCM_E2E=require DCM_KUBERNETES=1 $(GO) test -count=1 -timeout=0 -run '^TestKubernetes$$' -v ./internal/testkit/e2e
	cd $(NESTED) && DCM_KUBERNETES=1 $(GO) test -count=1 -timeout=2h -v ./internal/real

# The image of dcm-kubernetes for a registry: one OCI directory for all ARCHES.
image:
	mkdir -p $(DIST)
	for arch in $(ARCHES); do \
		GOARCH=$$arch $(GO) -C $(NESTED) build -ldflags '$(LDFLAGS)' -o $(CURDIR)/$(DIST)/dcm-kubernetes.$$arch . || exit 1; \
	done
	rm -rf $(DIST)/dcm-kubernetes.oci
	$(GO) -C $(NESTED) run ./internal/image/make -o $(CURDIR)/$(DIST)/dcm-kubernetes.oci -version $(VERSION) -epoch $(SOURCE_DATE_EPOCH) \
		$(foreach arch,$(ARCHES),$(arch)=$(CURDIR)/$(DIST)/dcm-kubernetes.$(arch))

# Build the image and copy it to the repository REGISTRY/dcm-kubernetes.
TAG ?= latest
push:
	@[ -n '$(REGISTRY)' ] || { echo 'REGISTRY: missing. hint: make push REGISTRY=ADDRESS' >&2; exit 1; }
	$(MAKE) image
	skopeo copy --all oci:$(DIST)/dcm-kubernetes.oci:$(VERSION) docker://$(REGISTRY)/dcm-kubernetes:$(TAG)

# The Helm chart with the manifests that it reads. Helm accepts only versions of semver.
CHART = $(DIST)/dcm-kubernetes-$(subst ~,-,$(VERSION)).tgz
chart:
	mkdir -p $(DIST)
	rm -rf $(DIST)/chart $(DIST)/dcm-kubernetes-*.tgz
	mkdir -p $(DIST)/chart
	cp -rL packaging/kubernetes/chart $(DIST)/chart/dcm-kubernetes
	sed -i 's/^version: .*/version: "$(subst ~,-,$(VERSION))"/; s/^appVersion: .*/appVersion: "$(VERSION)"/; /^# make chart/d' $(DIST)/chart/dcm-kubernetes/Chart.yaml
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@$(SOURCE_DATE_EPOCH) -C $(DIST)/chart -c dcm-kubernetes | gzip -n >$(CHART)
	rm -r $(DIST)/chart

# The image of dcm for hosts on which no package can be installed: see dcm.service(8).
host-image:
	for arch in $(ARCHES); do \
		tree=$(DIST)/image/$$arch; \
		rm -rf $$tree; \
		mkdir -p $$tree/usr/libexec/dcm $$tree/usr/lib/systemd/system $$tree/usr/share/dbus-1/system.d $$tree/usr/share/doc/dcm $$tree/usr/share/dcm; \
		for at in dcm-host usr/bin/dcm usr/libexec/dcm/dcm-service; do \
			GOARCH=$$arch $(GO) build -ldflags '$(LDFLAGS)' -o $$tree/$$at ./cmd/$${at##*/} || exit 1; \
		done; \
		cp systemd/dcm.service systemd/dcm-apply.service systemd/dcm-gate.service systemd/dcm-change.service systemd/dcm-reserve.service systemd/dcm-make@.service systemd/dcm-clean@.service systemd/dcm-keep@.target systemd/dcm-agent.service systemd/dcm-agent.socket systemd/dcm.slice $$tree/usr/lib/systemd/system; \
		cp packaging/dbus/org.deviceconfig.Manager1.conf $$tree/usr/share/dbus-1/system.d; \
		cp packaging/dcm.toml $$tree/usr/share/dcm; \
		cp LICENSE packaging/copyright $$tree/usr/share/doc/dcm; \
	done
	rm -rf $(DIST)/dcm.oci
	$(GO) -C $(NESTED) run ./internal/image/make -name dcm-host -o $(abspath $(DIST))/dcm.oci -version $(VERSION) -epoch $(SOURCE_DATE_EPOCH) \
		$(foreach arch,$(ARCHES),$(arch)=$(abspath $(DIST))/image/$(arch))

# The image of dcm in a podman container, on a host with a real systemd.
test-host-image:
	DCM_E2E=require DCM_IMAGE=1 $(GO) test -count=1 -timeout=0 -run '^TestHostImage$$' -v ./internal/testkit/e2e

# A release of the tag of HEAD in dist/release, signed with KEY; see packaging/release.sh.
release:
	$(MAKE) lint-vuln VULN_REQUIRED=1
	packaging/release.sh $(DIST)/release

# The same with a tag and a key of the test, in a clone.
test-release:
	DCM_RELEASE=1 $(GO) test -count=1 -timeout=0 -v -run '^TestRelease' ./packaging

# The programs and a script that read the GPUs of a host on which nothing is installed.
hardware-kit:
	mkdir -p $(DIST)
	for arch in $(ARCHES); do DIST=$(DIST) packaging/kit.sh $$arch || exit 1; done

install:
	./install.sh

.PHONY: kinds known-kind
# The kinds of nodes are read from the source, so that the list needs no compiler.
KINDS = sed -n 's/.*{Name: "\([^"]*\)", About: "\([^"]*\)".*/\1;\2/p' internal/testkit/sim/kind.go
kinds:
	@$(KINDS) | awk -F';' '{ printf "  %-18s %s\n", $$1, $$2 }'

known-kind:
	@[ -f '$(KIND)' ] || $(KINDS) | cut -d';' -f1 | grep -qxF -- '$(KIND)' || { \
		[ '$(KIND)' = help ] || echo 'unknown kind of node "$(KIND)"' >&2; \
		echo 'The kinds of nodes, for KIND=:'; $(MAKE) --silent kinds; [ '$(KIND)' = help ]; exit 1; }

demo: demo-package bin/demo
	exec bin/demo -dist $(DIST)/demo

# A shell on the simulated node, with dcm installed.
node: known-kind demo-package bin/demo
	exec bin/demo -dist $(DIST)/demo -shell -kind $(KIND)

KIND = mi300x-8

# The package of the demo, for this host. It is not compressed, since compression takes longer
# than a build with a warm cache. It is not in DIST, so that it is not installed instead of a
# package of 'make packages'.
.PHONY: demo-package
demo-package: ARCH = $(shell $(GO) env GOARCH)
demo-package:
	rm -rf $(DIST)/demo
	mkdir -p $(DIST)/demo
	STAGE=$(DIST)/demo/stage packaging/stage.sh $(ARCH)
	STAGE=$(DIST)/demo/stage ARCH=$(ARCH) COMPRESSION=none packaging/pack.sh $(RECIPE) deb $(DIST)/demo/

# What to run before a commit. The results of tests are cached. It needs no root, and names the tests that do.
check: lint-go bin/summary
	bin/summary -plain -timeout=0 ./...
	cd $(NESTED) && $(CURDIR)/bin/summary -plain -timeout=0 ./...

# The tests of each commit, as root: the packages with goroutines under the race detector, all others without, and
# the containers of this tier (internal/testkit/e2e/tiers.tsv). There is no time limit, since a busy machine would
# exceed it: each wait in a test has its own limit. The longest tests start first.
test: race bin/summary product
	cd $(NESTED) && $(CURDIR)/bin/summary -count=1 -timeout=0 ./...
	DCM_E2E=require DCM_TIER=$(TIER) DCM_PRODUCT=$(abspath $(PRODUCT)) bin/summary -count=1 -timeout=0 \
		./internal/testkit/e2e $(filter-out $(RACY:%=dcm/internal/%),$(shell $(GO) list ./...))
	$(MAKE) histories HISTORIES=20s FIRST=1 SEEDS=3000

TIER = test

# Every test, before a release. Each part prints its result; the first failure ends it.
test-all: TIER = test-all
test-all: lint test test-nvidia test-nvml test-release test-ansible test-slurm test-page test-host-image test-kubernetes
	$(MAKE) soak soak-leases soak-make scale scale-leases histories
	$(MAKE) test-vm VM=bookworm,trixie,backports ALL=1
	$(MAKE) soak-vm

# The packages with goroutines, under the race detector, which needs a C compiler. The tests whose deadlines are too
# short for its speed, or that mostly wait and whose concurrent code other tests run too, run without it.
race: bin/summary
	CGO_ENABLED=1 bin/summary -race -count=1 -timeout=0 -skip '$(UNRACED)' $(RACY:%=./internal/%)
	bin/summary -count=1 -timeout=0 -run '$(UNRACED)' ./internal/engine/apply ./internal/gpu/openfiles

UNRACED = ^(TestFaultMatrix|TestFaultMatrixOfMIG|TestWhose_NoVisibleHolder)$$

# What the end-to-end tests install, of two versions. lint checks the packages of the first one. It is built again only
# after a change of a file, so that install.sh and make test build it once.
.PHONY: product
product: $(PRODUCT)/complete

$(PRODUCT)/complete: ARCH = $(shell $(GO) env GOARCH)
$(PRODUCT)/complete: $(shell find cmd internal packaging systemd LICENSE CHANGELOG.md Makefile go.mod go.sum -type f -not -name '*_test.go')
	mkdir -p $(PRODUCT)
	rm -f $@
	$(GO) build -o $(PRODUCT)/ ./internal/testkit/e2e/agent ./cmd/dcm-sim
	for version in 0.1.0 0.1.1; do \
		$(MAKE) --silent packages ARCHES=$(ARCH) VERSION=$$version DIST=$(PRODUCT)/$$version COMPRESSION=gzip || exit 1; \
	done
	touch $@

# The root file systems of the containers. The tests make missing ones, but concurrently
# with other work this costs less time.
roots: bin/roots
	exec bin/roots

# Programs that run containers are built, since 'go run' does not forward signals.
bin/%: $(shell find internal/testkit/e2e -type f) go.mod
	$(GO) build -o $@ ./internal/testkit/e2e/$*

RACY = frontends/status frontends/status/gather app/leaseservice app/reservations app/agentservice leases/exclusive engine/apply frontends/supportbundle frontends/dbusapi engine/daemon engine/event gpu leases/lease frontends/metrics gpu/openfiles engine/runstate app/service linux/systemd linux/watch

scale:
	DCM_E2E=require DCM_SCALE=1 $(GO) test -count=1 -timeout=0 -run '^TestNode$$/^scale$$' -v ./internal/testkit/e2e

# Many leases, in sequence and 60 concurrently: the memory of dcm and PID 1 stays flat.
scale-leases:
	DCM_E2E=require DCM_LEASES=$(LEASES) $(GO) test -count=1 -timeout=0 -run '^TestNode$$/^lease_scale$$' -v ./internal/testkit/e2e

LEASES ?= 2000

# The random tests, for a longer time than in 'make test'.
soak:
	DCM_E2E=require DCM_SOAK=$(SOAK) $(GO) test -count=1 -timeout=24h -run TestNode/random -v ./internal/testkit/e2e

# The same for leases and reservations. SOAK is a duration or the number of users' steps.
soak-leases:
	DCM_E2E=require DCM_SOAK=$(SOAK) $(GO) test -count=1 -timeout=24h -run TestNode/leases -v ./internal/testkit/e2e

# Leases that make their partitions, on both vendors. SOAK is a duration or the number of leases.
soak-make:
	DCM_E2E=require DCM_SOAK=$(SOAK) $(GO) test -count=1 -timeout=24h -run TestNode/makes -v ./internal/testkit/e2e

SOAK ?= 10m

# dcm on a real kernel in virtual machines, with kernel modules that stand in for GPUs and
# driver. Hardware virtualisation is not needed. VM lists the guests, of
# bookworm,trixie,backports,selinux,dmem. With ALL=1 the long scenarios run too, among them a
# power cut and hotplug in each phase of a change.
test-vm:
	DCM_VM=$(VM) DCM_VM_ALL=$(ALL) $(GO) test -count=1 -timeout=0 -v ./internal/testkit/e2e/vm

VM ?= trixie

# Random kills and power cuts in such a machine, for the time SOAK.
soak-vm:
	DCM_VM=$(VM) DCM_VM_SOAK=$(SOAK) $(GO) test -count=1 -timeout=0 -v -run '^TestSoak$$' ./internal/testkit/e2e/vm

# A root shell in a virtual machine with dcm. KERNEL names its guest.
vm: bin/vm/shell
	exec bin/vm/shell -kernel $(KERNEL)

KERNEL ?= trixie

# The Ansible role, with the real Ansible on a simulated node.
test-ansible:
	DCM_E2E=require DCM_ANSIBLE=1 $(GO) test -count=1 -timeout=0 -run TestAnsible -v ./internal/testkit/e2e

# The real slurmctld and slurmd, on a simulated node.
test-slurm:
	DCM_E2E=require DCM_SLURM=1 $(GO) test -count=1 -timeout=0 -run TestSlurm -v ./internal/testkit/e2e

# The page in Cockpit, with a real browser.
test-page:
	DCM_E2E=require DCM_PAGE=1 $(GO) test -count=1 -timeout=0 -run TestPage -v ./internal/testkit/e2e

# The same, with screenshots of the page in dist/screenshots.
screenshots:
	mkdir -p $(DIST)/screenshots
	DCM_E2E=require DCM_PAGE=$(CURDIR)/$(DIST)/screenshots $(GO) test -count=1 -timeout=0 -run TestPage -v ./internal/testkit/e2e
	ls $(DIST)/screenshots

# Every MIG geometry on all GPUs of every kind of node, on Debian 12 and 13.
test-nvidia:
	DCM_E2E=require DCM_NVIDIA=1 $(GO) test -count=1 -timeout=0 -run TestNode/nvidia -v ./internal/testkit/e2e

# dcm-nvml with the real libnvidia-ml of two branches, without a GPU: its answers and its
# changes of device nodes. As root, on a Debian whose mirror has non-free.
test-nvml:
	DCM_E2E=require DCM_NVML=1 $(GO) test -count=1 -timeout=0 -run '^TestRealLibrary$$' -v ./cmd/dcm-nvml

# Record what users depend on in internal/testkit/surface/golden, and show the difference.
# The tests only compare it.
surface:
	DCM_SURFACE_WRITE=1 $(GO) test -count=1 ./internal/testkit/surface
	DCM_SURFACE_WRITE=1 DCM_E2E=require $(GO) test -count=1 -timeout=0 -run '^TestNode$$/^surface$$' ./internal/testkit/e2e
	$(GIT) diff --stat -- internal/testkit/surface/golden

# What dcm was tested on, in dcm(1).
.PHONY: tested-on
tested-on:
	$(GO) generate ./internal/testkit/testedon

# Random histories of a host in one process, for HISTORIES, from the seed FIRST. Each test of the package plays some
# for two seconds. make test plays the same seeds each time, since a new violation fails.
HISTORIES ?= 1m
SEEDS ?= 0
FIRST ?= $(shell date +%s)
.PHONY: histories
histories:
	$(GO) test -count=1 -timeout=0 -v -run 'TestHistories|TestKnown' ./internal/testkit/histories -args -histories $(HISTORIES) -first $(FIRST) -seeds $(SEEDS)

# Each fuzz target for FUZZ. Seeds and earlier findings run with every go test.
fuzz:
	grep -r --include='*_test.go' -o '^func Fuzz[A-Za-z0-9]*' cmd internal packaging | sort | while IFS=: read -r file target; do \
		echo "$${target#func } in $$(dirname "$$file"), for $(FUZZ)"; \
		$(GO) test -run '^$$' -fuzz "^$${target#func }\$$" -fuzztime $(FUZZ) "./$$(dirname "$$file")" </dev/null || exit 1; \
	done

FUZZ ?= 10s

# The benchmarks of the packages, then dcm's overhead in a container compared with the
# minimum for the same work. No figure makes it fail, since other load changes them.
bench: ARCHES = $(shell $(GO) env GOARCH)
bench: packages
	$(GO) test -run '^$$' -bench . -benchmem -benchtime=0.2s \
		$$(grep -rl --include='*_test.go' '^func Benchmark' cmd internal | xargs -n1 dirname | sort -u | sed 's|^|./|')
	$(GO) run ./internal/testkit/e2e/bench -dist $(DIST)

lint: lint-source lint-packages

# The checks that need no package.
lint-source: lint-go lint-arm64 lint-vuln lint-sh lint-wording

lint-go:
	test -z "$$(gofmt -l cmd internal packaging)" || { gofmt -d cmd internal packaging; exit 1; }
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK) ./...
	$(GO) -C $(NESTED) vet ./...
	cd $(NESTED) && $(GO) run honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK) ./...

STATICCHECK = v0.8.2

# The packages for arm64 are built for a release. It compiles everything once more, so make check omits it.
lint-arm64:
	GOARCH=arm64 $(GO) build ./...

# Known vulnerabilities of linked modules. The database is on the network. If it cannot be
# reached, the check is reported as not run and does not fail, unless VULN_REQUIRED is set.
lint-vuln:
	@out=$$(timeout 120 $(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) ./cmd/... 2>&1 && cd $(NESTED) && timeout 120 $(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) ./... 2>&1) && code=0 || code=$$?; \
	case "$$code $$out" in \
	"0 "*) echo "govulncheck: nothing known" ;; \
	*"exit status 3"* | "3 "*) echo "$$out"; exit 1 ;; \
	*) [ -z "$(VULN_REQUIRED)" ] || { echo "govulncheck: did not run"; echo "$$out"; exit 1; }; \
	   echo "govulncheck: not run: $$(echo "$$out" | grep -v '^go: downloading' | head -n 1 | grep . || echo 'no answer in 120 s')" ;; \
	esac

GOVULNCHECK = v1.9.0

lint-sh:
	shellcheck --external-sources install.sh .ci/run findings/*.sh internal/testkit/e2e/node/usr/local/lib/* internal/testkit/e2e/node/usr/local/bin/*
	shellcheck --shell=sh --external-sources internal/testkit/e2e/boot.sh internal/testkit/e2e/vm/*.sh packaging/*.sh packaging/kit/run.sh packaging/deb/p* packaging/rpm/p* packaging/rpm/lint.sh

# The words of internal/testkit/wording, long sentences, and names of durations.
lint-wording:
	$(GO) test ./internal/testkit/wording

# A tool that the distribution lacks is skipped.
lint-packages: packages lint-packed

# The same for the packages that are in DIST.
lint-packed:
	if command -v lintian; then \
		tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT; \
		TMPDIR=$$tmp lintian --fail-on error $(DIST)/*.deb; \
	fi
	if command -v rpmlint; then packaging/rpm/lint.sh $(DIST)/*.rpm; fi

# The cached containers belong to root, so their removal needs root.
clean:
	rm -rf bin $(DIST)
	if [ -e $(CACHE) ]; then du -sh $(CACHE); rm -rf --one-file-system $(CACHE); fi

CACHE = $(or $(DCM_TEST_CACHE),/var/cache/dcm-test)
