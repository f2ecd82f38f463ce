# Builds the kernel modules against the headers of a root file system. The root is not
# changed: an overlay takes what is written. ROOT is one directory, or several to be laid
# over each other, separated by colons, the upper ones first.
# usage: modules.sh ROOT SOURCES OUTPUT WORK
set -eu
root=$1 sources=$2 output=$3 work=$4
mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay -o "lowerdir=$root,upperdir=$work/upper,workdir=$work/work" overlay "$work/root"
mount -t proc proc "$work/root/proc" # objtool reads it
version=$(ls "$work/root/usr/lib/modules")
cp -r "$sources" "$work/root/kmod"
chroot "$work/root" make --silent -C "/lib/modules/$version/build" M=/kmod modules
cp "$work/root"/kmod/*.ko "$output"
