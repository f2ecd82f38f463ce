#!/bin/sh
# lint.sh PACKAGE...: rpmlint. It unpacks a package with "cpio -id", and the names
# in a package of nfpm are absolute. As root that would install it on this host,
# and rpmlint would not find the files. So cpio gets another option.
set -eu

cpio=$(command -v cpio)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/cpio" <<END
#!/bin/sh
exec $cpio --no-absolute-filenames "\$@"
END
chmod +x "$dir/cpio"
PATH=$dir:$PATH rpmlint -c "$(dirname "$0")/rpmlint.toml" "$@"
