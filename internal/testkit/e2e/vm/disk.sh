# Makes what a virtual machine boots from: OUTPUT/disk.raw, OUTPUT/kernel, OUTPUT/initrd.
# The root is not changed: an overlay takes what is written. ROOT is as in modules.sh.
# usage: disk.sh ROOT MODULES SEED PACKAGE OUTPUT WORK
set -eu
root=$1 modules=$2 seed=$3 package=$4 output=$5 work=$6
mount -t tmpfs -o size=2G tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root" "$work/initrd"
mount -t overlay -o "xino=on,lowerdir=$root,upperdir=$work/upper,workdir=$work/work" overlay "$work/root"
tree=$work/root
version=$(ls "$tree/usr/lib/modules")

cp "$tree/boot/vmlinuz-$version" "$output/kernel"

# The initial RAM disk loads the modules of the disk, of the root file system and of the
# agent's line, as far as the kernel does not have them built in.
mkdir -p "$work/initrd/bin" "$work/initrd/dev" "$work/initrd/proc" "$work/initrd/root"
cp "$tree/bin/busybox" "$work/initrd/bin/busybox"
{
	echo '#!/bin/busybox sh'
	chroot "$tree" modprobe -S "$version" --show-depends -a virtio_pci virtio_blk virtio_console ext4 |
		while read -r verb file _; do
			[ "$verb" = insmod ] || continue
			name=$(basename "$file")
			case $name in
			*.xz) name=${name%.xz}; xz -dc "$tree$file" >"$work/initrd/$name" ;;
			*.zst) name=${name%.zst}; zstd -dc "$tree$file" >"$work/initrd/$name" ;;
			*) cp "$tree$file" "$work/initrd/$name" ;;
			esac
			echo "/bin/busybox insmod /$name 2>/dev/null" # not every checksum is for this processor
		done
	cp "$modules/fakehive.ko" "$work/initrd"
	cat <<-'END'
		# NVIDIA GPUs are on the bus before systemd runs generators: units depend on them.
		/bin/busybox mount -t proc proc /proc
		if /bin/busybox grep -q fakehive.nvidia= /proc/cmdline; then
			/bin/busybox insmod /fakehive.ko $(/bin/busybox grep -o 'fakehive\.[^ ]*' /proc/cmdline | /bin/busybox sed 's/^fakehive\.//')
		fi
		/bin/busybox umount /proc
		/bin/busybox mount -t devtmpfs dev /dev
		/bin/busybox mount -t ext4 /dev/vda /root
		/bin/busybox mount --move /dev /root/dev
		exec /bin/busybox switch_root /root /sbin/init
	END
} >"$work/initrd/init"
chmod 755 "$work/initrd/init"
(cd "$work/initrd" && find . | cpio --quiet --create --format=newc --owner=0:0) >"$output/initrd"

# Only the modules that the tests need: udev would load many more by their modaliases,
# which takes a third of the time of a boot.
kept=$work/kept
mkdir "$kept"
(
	cd "$tree/lib/modules/$version"
	find . -name 'ext4.ko*' -o -name 'jbd2.ko*' -o -name 'mbcache.ko*' -o -name 'crc16.ko*' -o -name 'crc32c*.ko*' \
		-o -name 'libcrc32c.ko*' -o -name 'virtio_blk.ko*' -o -name 'drm.ko*' -o -name 'drm_panel_orientation_quirks.ko*' \
		-o -name 'i2c-core.ko*' -o -name 'fuse.ko*' -o -name 'overlay.ko*' -o -name 'dummy.ko*' -o -name 'modules.builtin*' -o -name modules.order |
		cpio --quiet --pass-through --make-directories "$kept"
)
rm -rf "$tree/lib/modules/$version"
mkdir "$tree/lib/modules/$version"
cp -r "$kept/." "$tree/lib/modules/$version"
mkdir "$tree/lib/modules/$version/updates"
cp "$modules"/*.ko "$tree/lib/modules/$version/updates"
chroot "$tree" depmod "$version"

rm -rf "${tree:?}"/boot/* "$tree"/usr/src/* "$tree"/usr/lib/gcc* "$tree"/usr/libexec/gcc "$tree"/var/cache/apt/* "$tree"/var/lib/apt/lists/*
rm -f "$tree"/initrd.img* "$tree"/vmlinuz* "$tree"/usr/bin/*-linux-gnu-*
cp "$output/kernel" "$output/initrd" "$tree/boot" # for kexec

# Services that take time at a boot and that no test needs.
for unit in getty.target systemd-random-seed.service systemd-pstore.service systemd-update-utmp.service systemd-hwdb-update.service \
	systemd-binfmt.service proc-sys-fs-binfmt_misc.automount ldconfig.service systemd-journal-catalog-update.service \
	systemd-tmpfiles-clean.timer; do
	ln -sf /dev/null "$tree/etc/systemd/system/$unit"
done
# A test that needs them starts them.
for unit in munge slurmctld slurmd podman machines podman-auto-update podman-restart podman-clean-transient; do
	rm -f "$tree"/etc/systemd/system/*.wants/"$unit".*
done
echo fakehive >"$tree/etc/modules-load.d/fakehive.conf"
echo gpu-node >"$tree/etc/hostname"

cp "$package" "$tree/package.deb"
chroot "$tree" dpkg --install /package.deb >/dev/null
rm "$tree/package.deb"
cp -r "$seed/." "$tree"

# The labels of SELinux, if the root has a policy. setfiles does not follow mounts, so each
# file needs the device number of the root, which xino=on gives it.
contexts=/etc/selinux/default/contexts/files/file_contexts
if [ -e "$tree$contexts" ]; then
	chroot "$tree" setfiles -F "$contexts" /
fi

truncate --size=2G "$output/disk.raw"
mke2fs -q -F -t ext4 -L root -d "$tree" "$output/disk.raw"
