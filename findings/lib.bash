# shellcheck shell=bash
# Read by the scripts of this directory, after they have made the temporary directory $dir. It is removed at the
# end.
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT

# go_module MODULE@VERSION...: a Go module that requires them.
go_module() {
	(
		cd "$dir" || exit
		export GOFLAGS=-mod=mod GOWORK=off
		go mod init finding 2>/dev/null
		go get "$@" 2>/dev/null
	)
}

# debian_package NAME VERSION: unpack a package from the sources of apt, without installing it.
debian_package() {
	(
		cd "$dir" || exit
		apt-get download -qq "$1=$2" 2>/dev/null
		dpkg -x "$1"_*.deb .
		rm "$1"_*.deb
	)
}

# expect: run the Go program of $dir, or with arguments another command there. Fail if its output
# is not that on standard input.
expect() {
	local want got
	want=$(cat)
	if [ $# = 0 ]; then
		(cd "$dir" && GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0 go build -o program . 2>/dev/null)
		set -- ./program
	fi
	got=$(cd "$dir" && "$@" 2>&1) || got+=$'\n'"exit status $?"
	echo "$got"
	[ "$got" = "$want" ] || {
		echo "this has changed. Before it was:"
		echo "$want"
		exit 1
	}
}
