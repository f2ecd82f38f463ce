#!/bin/sh
# stage.sh ARCH: lay out under STAGE/ARCH (dist/stage/ARCH) what nfpm.yaml packs and what has to
# be built for it: the programs, the compressed man pages, the completions.
# ARCH is Go's name, amd64 or arm64. VERSION is told to the programs; LDFLAGS
# replaces the linker flags. Everything written is reproducible.
set -eu
cd "$(dirname "$0")/.."

arch=${1:?usage: stage.sh amd64|arm64}
version=${VERSION:?VERSION is not set}
ldflags=${LDFLAGS:--s -w -X main.version=$version}
# dcm's own code is compiled as it is written, without functions in the place of their
# calls: what it does is system calls, no slower so, and the program is 4 % smaller, which
# is so much less of the daemon in memory.
gcflags=dcm/...=-l
stage=${STAGE:-dist/stage}/$arch

rm -rf "$stage"
mkdir -p "$stage/man" "$stage/completion"

for program in dcm dcm-service dcm-smi dcm-nvml dcm-guard; do
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch \
		go build -trimpath -gcflags "$gcflags" -ldflags "$ldflags" -buildvcs=false -o "$stage/$program" "./cmd/$program"
done

# -n: no name and no time of the build in the result.
for page in packaging/man/*.[1-8]; do
	gzip -9nc "$page" >"$stage/man/${page##*/}.gz"
done

# The program of ARCH may not run here; its completions are the same on each.
for shell in bash zsh fish; do
	CGO_ENABLED=0 go run ./cmd/dcm completion "$shell" >"$stage/completion/dcm.$shell"
done
