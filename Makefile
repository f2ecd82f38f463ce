# For those who develop dcm. On a fresh machine start with ./install.sh --test,
# which installs what these targets need.

SHELL       = /bin/bash
.SHELLFLAGS = -eu -o pipefail -c

GO      ?= go
DIST    ?= dist
ARCHES  ?= amd64 arm64
PACKAGERS ?= deb rpm
# As root in somebody's checkout, too.
GIT     = git -c safe.directory=$(CURDIR)
# A release is a tag vX.Y.Z; what is built after it sorts after it, in DEB and RPM.
VERSION ?= $(shell packaging/version.sh)
# The packages are the same bytes whoever builds them.
SOURCE_DATE_EPOCH ?= $(shell $(GIT) log -1 --format=%ct 2>/dev/null || date --reference=go.sum +%s)

RECIPE ?= packaging/nfpm.yaml
# Each build of packages has a place of its own, so that two do not meet.
STAGE = $(DIST)/stage

export VERSION SOURCE_DATE_EPOCH STAGE
export CGO_ENABLED = 0
export GOFLAGS = -buildvcs=false

LDFLAGS  = -s -w -X main.version=$(VERSION)
# As packaging/stage.sh has it, and says why.
GCFLAGS  = dcm/...=-l
PROGRAMS = dcm dcm-service dcm-smi dcm-nvml dcm-guard dcm-sim
# A module of its own, so that nothing of Kubernetes is linked into what runs on a host.
NESTED   = cmd/dcm-kubernetes

.PHONY: build packages install demo test race roots surface scale scale-leases soak soak-leases test-vm test-ansible test-slurm test-nvidia test-nvml test-page screenshots fuzz bench lint lint-go lint-vuln lint-sh lint-wording lint-packages wording clean

build:
	for program in $(PROGRAMS); do \
		$(GO) build -trimpath -gcflags '$(GCFLAGS)' -ldflags '$(LDFLAGS)' -o bin/$$program ./cmd/$$program || exit 1; \
	done
	$(GO) -C $(NESTED) build -trimpath -ldflags '$(LDFLAGS)' -o $(CURDIR)/bin/dcm-kubernetes .

packages:
	mkdir -p $(DIST)
	rm -f $(DIST)/dcm[-_]*.deb $(DIST)/dcm[-_]*.rpm $(DIST)/cockpit-dcm*.deb $(DIST)/cockpit-dcm*.rpm
	for arch in $(ARCHES); do \
		packaging/stage.sh $$arch || exit 1; \
		for packager in $(PACKAGERS); do \
			ARCH=$$arch $(GO) tool nfpm package -f $(RECIPE) -p $$packager -t $(DIST)/ || exit 1; \
		done; \
	done
	for packager in $(PACKAGERS); do \
		$(GO) tool nfpm package -f packaging/cockpit/nfpm.yaml -p $$packager -t $(DIST)/ || exit 1; \
	done

.PHONY: image test-kubernetes host-image test-host-image

# The agent with a real API server and its controllers, which are made into the cache the
# first time: about a quarter of an hour. First with a dcm in a container, then with many
# that are played: a thousand nodes at the end.
test-kubernetes:
	DCM_E2E=require DCM_KUBERNETES=1 $(GO) test -count=1 -timeout=0 -run '^TestKubernetes$$' -v ./internal/testkit/e2e
	cd $(NESTED) && DCM_KUBERNETES=1 $(GO) test -count=1 -timeout=2h -v ./internal/real


# The image of dcm-kubernetes, for a registry: a directory, one image for all ARCHES.
image:
	mkdir -p $(DIST)
	for arch in $(ARCHES); do \
		GOARCH=$$arch $(GO) -C $(NESTED) build -trimpath -ldflags '$(LDFLAGS)' -o $(CURDIR)/$(DIST)/dcm-kubernetes.$$arch . || exit 1; \
	done
	rm -rf $(DIST)/dcm-kubernetes.oci
	$(GO) -C $(NESTED) run ./internal/image/make -o $(CURDIR)/$(DIST)/dcm-kubernetes.oci -version $(VERSION) -epoch $(SOURCE_DATE_EPOCH) \
		$(foreach arch,$(ARCHES),$(arch)=$(CURDIR)/$(DIST)/dcm-kubernetes.$(arch))

# The image of dcm itself, for hosts that take no package: see dcm.service(8).
host-image:
	for arch in $(ARCHES); do \
		tree=$(DIST)/image/$$arch; \
		rm -rf $$tree; \
		mkdir -p $$tree/usr/libexec/dcm $$tree/usr/lib/systemd/system $$tree/usr/share/dbus-1/system.d $$tree/usr/share/doc/dcm $$tree/usr/share/dcm; \
		for at in dcm-host usr/bin/dcm usr/libexec/dcm/dcm-service; do \
			GOARCH=$$arch $(GO) build -trimpath -gcflags '$(GCFLAGS)' -ldflags '$(LDFLAGS)' -o $$tree/$$at ./cmd/$${at##*/} || exit 1; \
		done; \
		cp systemd/dcm.service systemd/dcm-apply.service systemd/dcm-reserve.service systemd/dcm-agent.service systemd/dcm-agent.socket systemd/dcm.slice $$tree/usr/lib/systemd/system; \
		cp packaging/dbus/org.deviceconfig.Manager1.conf $$tree/usr/share/dbus-1/system.d; \
		cp packaging/dcm.toml $$tree/usr/share/dcm; \
		cp LICENSE packaging/copyright $$tree/usr/share/doc/dcm; \
	done
	rm -rf $(DIST)/dcm.oci
	$(GO) -C $(NESTED) run ./internal/image/make -name dcm-host -o $(abspath $(DIST))/dcm.oci -version $(VERSION) -epoch $(SOURCE_DATE_EPOCH) \
		$(foreach arch,$(ARCHES),$(arch)=$(abspath $(DIST))/image/$(arch))

# That image in a real container, on a host whose systemd is a real one.
test-host-image:
	DCM_E2E=require DCM_IMAGE=1 $(GO) test -count=1 -timeout=0 -run '^TestHostImage$$' -v ./internal/testkit/e2e

install:
	./install.sh

# The simulated node and the container are the tests' own.
demo: PACKAGERS = deb
demo: packages bin/demo
	exec bin/demo -dist $(DIST)

# Everything, as root. `go test ./...` runs what needs neither root nor a container.
# There is no time limit, which a busy machine would break: each wait in a test has its
# own, and what is under way is told all the while. What takes longest begins first.
test: race bin/summary
	cd $(NESTED) && $(CURDIR)/bin/summary -count=1 -timeout=0 ./...
	DCM_E2E=require exec bin/summary -count=1 -timeout=0 ./internal/testkit/e2e ./...

# The packages with goroutines, under the race detector, which needs a C compiler. The
# fault matrix goes by deadlines that are too short for its pace; and of the other runs
# that mostly wait, those that stay go through all that is done at once.
race: bin/summary
	CGO_ENABLED=1 exec bin/summary -race -count=1 -timeout=0 -skip '$(UNRACED)' $(RACY:%=./internal/%)

UNRACED = ^(TestFaultMatrix|TestFaultMatrixOfMIG|TestABusyAnswerForWhichNobodyIsToBlameIsSaidToBeOne|TestARebootIsSaidToHelpWhereNothingLessDoes|TestAGPUThatStaysUnboundDoesNotKeepTheClientsDown|TestAGPUThatIsGoneInARunDoesNotKeepTheOthersFromGoingBack)$$

# The root file systems of the containers, which the tests make too where they are not
# there: beside something else it costs less time.
roots: bin/roots
	exec bin/roots

# What runs containers is a program of its own, and not run by the go command, which
# would not pass a signal on.
bin/%: $(shell find internal/testkit/e2e -type f) go.mod
	$(GO) build -o $@ ./internal/testkit/e2e/$*

RACY = frontends/status engine/apply frontends/supportbundle frontends/dbusapi engine/daemon engine/event gpu leases/lease frontends/metrics gpu/openfiles engine/runstate app/service linux/systemd linux/watch

# A node of 64 GPUs and 500 units, a thousand edits, and a file of 10 MB.
scale:
	DCM_E2E=require DCM_SCALE=1 $(GO) test -count=1 -timeout=0 -run '^TestNode$$/^scale$$' -v ./internal/testkit/e2e

# Many leases, one after the other and 60 at once: what dcm and PID 1 hold stays flat.
scale-leases:
	DCM_E2E=require DCM_LEASES=$(LEASES) $(GO) test -count=1 -timeout=0 -run '^TestNode$$/^lease_scale$$' -v ./internal/testkit/e2e

LEASES ?= 2000

# The random trials for as long as it takes to believe in it.
soak:
	DCM_E2E=require DCM_SOAK=$(SOAK) $(GO) test -count=1 -timeout=24h -run TestNode/random -v ./internal/testkit/e2e

# The same for leases and reservations; SOAK may also be how many steps users are to make.
soak-leases:
	DCM_E2E=require DCM_SOAK=$(SOAK) $(GO) test -count=1 -timeout=24h -run TestNode/leases -v ./internal/testkit/e2e

SOAK ?= 10m

# dcm on a real kernel, with kernel modules that stand in for GPUs and driver, in virtual
# machines without hardware virtualisation. VM names the guests: bookworm,trixie.
test-vm:
	DCM_VM=$(VM) $(GO) test -count=1 -timeout=0 -v ./internal/testkit/e2e/vm

VM ?= trixie

# The Ansible role, with the real Ansible on a simulated node.
test-ansible:
	DCM_E2E=require DCM_ANSIBLE=1 $(GO) test -count=1 -timeout=0 -run TestAnsible -v ./internal/testkit/e2e

# The real slurmctld and slurmd, on a simulated node.
test-slurm:
	DCM_E2E=require DCM_SLURM=1 $(GO) test -count=1 -timeout=0 -run TestSlurm -v ./internal/testkit/e2e

# The page in Cockpit, with a real browser.
test-page:
	DCM_E2E=require DCM_PAGE=1 $(GO) test -count=1 -timeout=0 -run TestPage -v ./internal/testkit/e2e

# The same, with pictures of the page for a person to look at.
screenshots:
	mkdir -p $(DIST)/screenshots
	DCM_E2E=require DCM_PAGE=$(CURDIR)/$(DIST)/screenshots $(GO) test -count=1 -timeout=0 -run TestPage -v ./internal/testkit/e2e
	ls $(DIST)/screenshots

# MIG: every geometry on all GPUs of every kind of node, one after the other, on both Debians.
test-nvidia:
	DCM_E2E=require DCM_NVIDIA=1 $(GO) test -count=1 -timeout=0 -run TestNode/nvidia -v ./internal/testkit/e2e

# dcm-nvml with the real libnvidia-ml of two branches, without a GPU: that it answers, and
# what it does to device nodes. As root, on a Debian whose mirror has non-free.
test-nvml:
	DCM_E2E=require DCM_NVML=1 $(GO) test -count=1 -timeout=0 -run '^TestRealLibrary$$' -v ./cmd/dcm-nvml

# What users depend on, as recorded in internal/testkit/surface/golden: written again, to be
# compared with git diff. The tests only compare it.
surface:
	DCM_SURFACE_WRITE=1 $(GO) test -count=1 ./internal/testkit/surface
	DCM_SURFACE_WRITE=1 DCM_E2E=require $(GO) test -count=1 -timeout=0 -run '^TestNode$$/^surface$$' ./internal/testkit/e2e
	$(GIT) diff --stat -- internal/testkit/surface/golden

# Every fuzz target for a time. Seeds and what was once found run with every go test.
fuzz:
	grep -r --include='*_test.go' -o '^func Fuzz[A-Za-z0-9]*' cmd internal packaging | sort | while IFS=: read -r file target; do \
		echo "$${target#func } in $$(dirname "$$file"), for $(FUZZ)"; \
		$(GO) test -run '^$$' -fuzz "^$${target#func }\$$" -fuzztime $(FUZZ) "./$$(dirname "$$file")" </dev/null || exit 1; \
	done

FUZZ ?= 10s

# The packages' own benchmarks, then dcm in a container beside the least that the
# same work can cost. Never fails for a figure: it depends on what else runs.
bench: ARCHES = $(shell $(GO) env GOARCH)
bench: packages
	$(GO) test -run '^$$' -bench . -benchmem -benchtime=0.2s \
		$$(grep -rl --include='*_test.go' '^func Benchmark' cmd internal | xargs -n1 dirname | sort -u | sed 's|^|./|')
	$(GO) run ./internal/testkit/e2e/bench -dist $(DIST)

lint: lint-go lint-vuln lint-sh lint-wording lint-packages

lint-go:
	test -z "$$(gofmt -l cmd internal)" || { gofmt -d cmd internal; exit 1; }
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK) ./...
	$(GO) -C $(NESTED) vet ./...
	cd $(NESTED) && $(GO) run honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK) ./...

STATICCHECK = v0.8.2

# Known holes in what is linked in. The list of them is on the network; where that cannot
# be reached this is said to be missing, no more.
lint-vuln:
	@out=$$(timeout 120 $(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) ./cmd/... 2>&1 && cd $(NESTED) && timeout 120 $(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) ./... 2>&1) && code=0 || code=$$?; \
	case "$$code $$out" in \
	"0 "*) echo "govulncheck: nothing known" ;; \
	*"exit status 3"* | "3 "*) echo "$$out"; exit 1 ;; \
	*) echo "govulncheck: not run: $$(echo "$$out" | grep -v '^go: downloading' | head -n 1 | grep . || echo 'no answer in 120 s')" ;; \
	esac

GOVULNCHECK = v1.1.4

lint-sh:
	shellcheck install.sh .ci/run internal/testkit/e2e/node/usr/local/lib/* internal/testkit/e2e/node/usr/local/bin/*
	shellcheck --shell=sh internal/testkit/e2e/boot.sh internal/testkit/e2e/vm/*.sh packaging/stage.sh packaging/version.sh packaging/deb/p* packaging/rpm/p* packaging/rpm/lint.sh

# Words, long sentences and names of durations that internal/testkit/wording finds. Each
# number in its baseline may only shrink; `make wording` lowers them and lists the places.
lint-wording:
	$(GO) test ./internal/testkit/wording

wording:
	DCM_WORDING_WRITE=1 $(GO) test -count=1 -v -run TestWording ./internal/testkit/wording

# A tool that the distribution does not have is said to be missing, no more.
lint-packages: packages
	if command -v lintian; then lintian --fail-on error $(DIST)/*.deb; fi
	if command -v rpmlint; then packaging/rpm/lint.sh $(DIST)/*.rpm; fi

# The roots of the tests are root's.
clean:
	rm -rf bin $(DIST)
	if [ -e $(CACHE) ]; then du -sh $(CACHE); rm -rf --one-file-system $(CACHE); fi

CACHE = $(or $(DCM_TEST_CACHE),/var/cache/dcm-test)
