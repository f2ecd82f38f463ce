#!/bin/sh
# kit.sh ARCH: build the hardware kit for ARCH (amd64, arm64), one archive of static programs
# and a script in DIST (dist). VERSION and SOURCE_DATE_EPOCH are those of the Makefile. The
# output is reproducible.
set -eu
cd "$(dirname "$0")/.."

arch=${1:?usage: kit.sh amd64|arm64}
version=${VERSION:?VERSION is not set}
dist=${DIST:-dist}
name=dcm-hardware-kit-$version-$arch
tree=$dist/kit/$name

rm -rf "$tree"
mkdir -p "$tree/bin" "$tree/libexec/dcm" "$tree/config/usr/lib/dcm/dcm.toml.d"
for program in bin/dcm libexec/dcm/dcm-smi libexec/dcm/dcm-nvml libexec/dcm/dcm-kit; do
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch \
		go build -trimpath -ldflags "-s -w -X main.version=$version" -buildvcs=false -o "$tree/$program" "./cmd/${program##*/}"
done
cp packaging/profiles/*.toml "$tree/config/usr/lib/dcm/dcm.toml.d"
cp packaging/kit/run.sh packaging/kit/README.txt LICENSE packaging/copyright "$tree"
# shellcheck source=packaging/publisher
. packaging/publisher
echo "${NAME:-the developers of this build}${EMAIL:+ <$EMAIL>}" >"$tree/CONTACT"
echo "$arch" >"$tree/ARCH"
echo "dcm $version" >"$tree/VERSION"
tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@${SOURCE_DATE_EPOCH:-0}" \
	-C "$dist/kit" -cf - "$name" | gzip -9n >"$dist/$name.tar.gz"
echo "$dist/$name.tar.gz"
