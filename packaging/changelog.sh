#!/bin/sh
# changelog.sh deb|rpm NAME: print the changelog of the package NAME, made from CHANGELOG.md.
# For deb it is the file of the package, for rpm the YAML file that nfpm reads. VERSION and
# SOURCE_DATE_EPOCH are the version and time of changes that are not released. MAINTAINER
# signs the entries.
set -eu
cd "$(dirname "$0")/.."

format=${1:?usage: changelog.sh deb|rpm NAME}
name=${2:?usage: changelog.sh deb|rpm NAME}
export LC_ALL=C
awk -v format="$format" -v name="$name" -v version="${VERSION:?VERSION is not set}" \
	-v epoch="${SOURCE_DATE_EPOCH:-0}" -v maintainer="${MAINTAINER:?MAINTAINER is not set}" '
function formatted(day, layout,   command, line) {
	command = "date --utc --date=" day " +\"" layout "\""
	command | getline line
	close(command)
	return line
}

function begin(v, day) {
	end()
	date = day
	open = 1
	items = 0
	if (format == "deb") {
		printf "%s (%s-1) unstable; urgency=medium\n", name, v
		return
	}
	# nfpm accepts only versions of semver here.
	sub(/\+.*/, "", v)
	gsub(/~/, "-", v)
	printf "- semver: %s-1\n  date: %s\n  packager: %s\n  changes:\n", v, formatted(day, "%Y-%m-%dT%H:%M:%SZ"), maintainer
}

function end() {
	if (!open) return
	if (items == 0) add("No change for users.")
	if (format == "deb") printf "\n -- %s  %s\n\n", maintainer, formatted(date, "%a, %d %b %Y %H:%M:%S +0000")
	open = 0
}

function add(text) {
	if (format == "rpm") {
		printf "    - note: >-\n        %s\n", text
	} else {
		if (items == 0 || subject != "") print ""
		if (subject != "") printf "  [ %s ]\n", subject
		printf "  * %s\n", text
	}
	subject = ""
	items++
}

{ gsub(/`/, "") }
/^## Unreleased$/ { begin(version, "@" epoch); next }
/^## / { begin($2, $4 "T12:00:00Z"); next }
/^### / { subject = substr($0, 5); next }
open && /^- / { add(substr($0, 3)); next }
open && /^  / { printf format == "deb" ? "    %s\n" : "        %s\n", substr($0, 3) }
END { end() }
' CHANGELOG.md
