#!/bin/sh
# release.sh [DIR]: build and sign the release that the tag of HEAD names, in DIR (dist/release).
# KEY is the OpenPGP key that signs SHA256SUMS, as gpg --local-user takes it; it has to be in
# the keyring of the caller. ARCHES and PACKAGERS are those of the Makefile.
#
# The result has the packages, one bill of materials (CycloneDX) for each program, and
# SHA256SUMS with its signature SHA256SUMS.asc. The packages are built twice in different
# directories, and the release fails if the results differ.
set -eu
cd "$(dirname "$0")/.."

fail() {
	echo "release: $1" >&2
	exit 1
}

out=${1:-dist/release}
key=${KEY:-}
[ -n "$key" ] || fail "KEY is not set. hint: make release KEY=FINGERPRINT"
gpg --batch --list-secret-keys "$key" >/dev/null 2>&1 || fail "KEY: no secret key $key in the keyring of this user"
tag=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null) ||
	fail "HEAD has no tag. hint: git tag -s vX.Y.Z"
[ -z "$(git status --porcelain)" ] || fail "the tree has changes that are not committed: see git status"
version=${tag#v}
[ "$(packaging/version.sh)" = "$version" ] || fail "version: found $(packaging/version.sh), want $version"
section=$(grep -m 1 '^## ' CHANGELOG.md)
echo "$section" | grep -Eq "^## $version - [0-9]{4}-[0-9]{2}-[0-9]{2}\$" ||
	fail "CHANGELOG.md: first section: found \"$section\", want \"## $version - YYYY-MM-DD\""
# shellcheck source=packaging/publisher
. packaging/publisher
while read -r key value; do
	[ -n "$value" ] || fail "packaging/publisher: $key is empty"
done <<END
NAME $NAME
EMAIL $EMAIL
REPOSITORY $REPOSITORY
END

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for build in first second; do
	make --no-print-directory packages VERSION="$version" DIST="$work/$build" >&2
done
for package in "$work"/first/*.deb "$work"/first/*.rpm; do
	[ -e "$package" ] || continue
	cmp "$package" "$work/second/${package##*/}" || fail "${package##*/} is not reproducible"
done

rm -rf "$out"
mkdir -p "$out/sbom"
find "$work/first" -maxdepth 1 \( -name '*.deb' -o -name '*.rpm' \) -exec cp {} "$out" \;
for arch in "$work"/first/stage/*/; do
	for program in "$arch"dcm*; do
		[ -f "$program" ] || continue
		go tool -modfile=packaging/tools/go.mod cyclonedx-gomod bin -json -noserial -std -version "$version" "$program" \
			>"$out/sbom/${program##*/}_$(basename "$arch").cdx.json"
	done
done
(
	cd "$out"
	find . -type f ! -name 'SHA256SUMS*' -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS
	gpg --batch --yes --local-user "$key" --armor --output SHA256SUMS.asc --detach-sign SHA256SUMS
	gpg --batch --verify SHA256SUMS.asc SHA256SUMS 2>/dev/null || fail "the signature cannot be verified"
	sha256sum --quiet --check SHA256SUMS
)
echo "release $version in $out: $(find "$out" -type f | wc -l) files, each package built twice with the same result"
