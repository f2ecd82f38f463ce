#!/bin/sh -e
# dcm-smi in another root, with a simulated node as its /sys. The mounts are seen
# by this process and what becomes of it alone. Plain files are enough for
# /dev/kfd and the render nodes.
mount -t proc proc '@ROOT@/proc'
mount --rbind '@SYS@' '@ROOT@/sys'
mount -t tmpfs tmpfs '@ROOT@/dev'
mkdir '@ROOT@/dev/dri' '@ROOT@/dev/shm'
for node in null kfd $(seq -f dri/renderD%g 128 191); do
	: >"@ROOT@/dev/$node"
done
chmod 666 '@ROOT@/dev/kfd' '@ROOT@'/dev/dri/* # as udev makes them; it looks as nobody
mount --bind /dev/null '@ROOT@/dev/null'
for name in libdrm.so.2 libdrm_amdgpu.so.1; do
	mount --bind "@DRM@/$name" "$(readlink -f @ROOT@/usr/lib/*-linux-gnu/$name)"
done
mount --bind '@BIN@' '@ROOT@/mnt'
exec chroot '@ROOT@' /mnt/dcm-smi "$@"
