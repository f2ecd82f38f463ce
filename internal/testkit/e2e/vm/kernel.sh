# Builds a kernel of the source in a root file system. The root is not changed: an overlay
# takes what is written. OUTPUT gets the kernel, its modules, and what modules are built
# against, at the paths of a root.
# usage: kernel.sh ROOT CONFIG OUTPUT WORK
set -eu
root=$1 config=$2 output=$3 work=$4
mkdir "$work/source" "$work/mounts"
tar -xf "$root"/usr/src/linux-source-*.tar.xz -C "$work/source" --strip-components=1
cp "$config" "$work/source/dcm.config"
mkdir -p "$output/boot" "$output/usr/src/headers"

mount -t tmpfs tmpfs "$work/mounts"
tree=$work/mounts/root
mkdir "$work/mounts/upper" "$work/mounts/work" "$tree"
mount -t overlay -o "lowerdir=$root,upperdir=$work/mounts/upper,workdir=$work/mounts/work" overlay "$tree"
mkdir "$tree/source" "$tree/output"
mount -t proc proc "$tree/proc"
mount --bind "$work/source" "$tree/source"
mount --bind "$output" "$tree/output"

# The build changes to $PWD, which has to exist in the root.
in_source() { PWD=/source chroot "$tree" make --silent -C /source "$@"; }
in_source KCONFIG_ALLCONFIG=dcm.config allnoconfig
grep -E '^(# )?CONFIG_' "$config" | while read -r line; do
	# Kconfig ignores an option with a missing dependency.
	grep -qxF "$line" "$work/source/.config" || { echo "the kernel's configuration lacks $line" >&2; exit 1; }
done
in_source -j"$(nproc)" bzImage modules
version=$(in_source kernelrelease)
cp "$work/source/arch/x86/boot/bzImage" "$output/boot/vmlinuz-$version"
in_source INSTALL_MOD_PATH=/output/usr modules_install
# shellcheck disable=SC2016 # make expands it
in_source run-command KBUILD_RUN_COMMAND='$(srctree)/scripts/package/install-extmod-build /output/usr/src/headers'
ln -sfn /usr/src/headers "$output/usr/lib/modules/$version/build"
