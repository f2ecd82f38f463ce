#!/bin/sh
# pack.sh RECIPE deb|rpm DIR: build a package in DIR from a recipe of nfpm. The recipe reads
# ARCH, VERSION, STAGE, and what this script sets: MAINTAINER, HOMEPAGE and CHANGELOG.
# COMPRESSION replaces xz: gzip is faster, none is fastest.
set -eu
cd "$(dirname "$0")/.."

usage='usage: pack.sh RECIPE deb|rpm DIR'
recipe=${1:?$usage}
packager=${2:?$usage}
out=${3:?$usage}

# shellcheck source=packaging/publisher
. packaging/publisher
# A build for development has no publisher and so no address. RFC 2606 reserves
# the domain for this.
export MAINTAINER="${NAME:-dcm developers} <${EMAIL:-unpublished@dcm.invalid}>" HOMEPAGE="$REPOSITORY"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed "s/^  compression: xz\$/  compression: ${COMPRESSION:-xz}/" "$recipe" >"$work/nfpm.yaml"
name=$(sed -n 's/^name: //p' "$recipe")
case $packager in
deb)
	export CHANGELOG="$work/changelog.Debian.gz"
	packaging/changelog.sh deb "$name" | gzip -9n >"$CHANGELOG"
	;;
rpm)
	packaging/changelog.sh rpm "$name" >"$work/changelog.yaml"
	echo "changelog: $work/changelog.yaml" >>"$work/nfpm.yaml"
	;;
esac
go tool -modfile=packaging/tools/go.mod nfpm package -f "$work/nfpm.yaml" -p "$packager" -t "$out"
