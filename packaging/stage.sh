#!/bin/sh
# stage.sh ARCH: build the files that nfpm.yaml packs in STAGE/ARCH (dist/stage/ARCH).
# These are the programs, the compressed manual pages and the completions.
# ARCH is Go's name, amd64 or arm64. VERSION is compiled into the programs. LDFLAGS
# replaces the linker flags. The output is reproducible.
set -eu
cd "$(dirname "$0")/.."

arch=${1:?usage: stage.sh amd64|arm64}
version=${VERSION:?VERSION is not set}
ldflags=${LDFLAGS:--s -w -X main.version=$version}
stage=${STAGE:-dist/stage}/$arch

# The same flags for all programs of this host and of ARCH.
set -- -trimpath -buildvcs=false -ldflags "$ldflags"

rm -rf "$stage"
mkdir -p "$stage/man" "$stage/completion"

for program in dcm dcm-service dcm-smi dcm-nvml dcm-guard; do
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build "$@" -o "$stage/$program" "./cmd/$program"
done

# -n: no name and no time stamp in the result.
for page in packaging/man/*.[1-8]; do
	gzip -9nc "$page" >"$stage/man/${page##*/}.gz"
done

# A program of ARCH may not run on this host. The completions are the same on all.
dcm=$stage/dcm
if [ "$arch" != "$(go env GOHOSTARCH)" ]; then
	dcm=$stage/dcm.host
	trap 'rm -f "$dcm"' EXIT
	CGO_ENABLED=0 go build "$@" -o "$dcm" ./cmd/dcm
fi
for shell in bash zsh fish; do
	"$dcm" completion "$shell" >"$stage/completion/dcm.$shell"
done
