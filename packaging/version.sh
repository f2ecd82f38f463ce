#!/bin/sh
# Prints the version of this tree, so that DEB and RPM sort builds in the order of their
# sources. It starts with the last tag vX.Y.Z. Then follow the number of commits since and
# the last commit. For a tree with changes the time of the last change follows. A tree
# without git's history, as in the archive of a release, is 0.1.0.
set -eu
cd "$(dirname "$0")/.."

# Git refuses a checkout of another user, which is what sudo makes of it.
history() { git -c safe.directory="$PWD" "$@" 2>/dev/null; }

if [ "$(history rev-parse --show-toplevel)" != "$(pwd -P)" ] || ! history rev-parse --verify --quiet HEAD >/dev/null; then
	echo 0.1.0
	exit
fi

tag=$(history describe --tags --abbrev=0 --match 'v[0-9]*' || :)
version=${tag#v}
version=${version:-0.1.0}
commits=$(history rev-list --count "${tag:+$tag..}HEAD")

changed() {
	history diff --name-only HEAD
	history ls-files --others --exclude-standard
}

# For a removed file use the time of its directory.
newest=$(changed | while read -r file; do
	while [ ! -e "$file" ]; do file=$(dirname "$file"); done
	stat --format=%Y "$file"
done | sort -n | tail -n 1)
if [ -z "$tag" ] || [ "$commits" -gt 0 ] || [ -n "$newest" ]; then
	version=$version+$commits.g$(history rev-parse --short=8 HEAD)
fi
echo "$version${newest:+.d$newest}"
