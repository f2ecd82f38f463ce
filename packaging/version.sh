#!/bin/sh
# Prints the version of this tree, such that DEB and RPM sort builds in the order in
# which their sources were made: that of the last tag vX.Y.Z; after it, how many commits
# have come since and which is the last; and for a tree with changes, when the last file
# was changed. A tree without git's history, as in a release's archive, is 0.1.0.
set -eu
cd "$(dirname "$0")/.."

# As root in somebody's checkout, too.
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

# Of a file that is gone its directory tells.
newest=$(changed | while read -r file; do
	while [ ! -e "$file" ]; do file=$(dirname "$file"); done
	stat --format=%Y "$file"
done | sort -n | tail -n 1)
if [ -z "$tag" ] || [ "$commits" -gt 0 ] || [ -n "$newest" ]; then
	version=$version+$commits.g$(history rev-parse --short=8 HEAD)
fi
echo "$version${newest:+.d$newest}"
