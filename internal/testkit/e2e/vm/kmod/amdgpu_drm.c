// SPDX-License-Identifier: GPL-2.0
/*
 * DRM nodes: one device per partition, all registered at load whatever the mode. Opening
 * one of an inactive partition fails with ENOENT (amdgpu_xcp_open_device).
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/version.h>

#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_ioctl.h>

#include "amdgpu.h"

static int xcp_open(struct drm_device *drm, struct drm_file *file)
{
	struct xcp *xcp = drm->dev_private;

	struct owner *owner;

	/* Not under the lock of the modes: open must not wait for a switch. */
	if (xcp->index >= partitions(xcp->gpu, READ_ONCE(xcp->gpu->mode)))
		return -ENOENT;
	owner = kzalloc(sizeof(*owner), GFP_KERNEL);
	if (!owner)
		return -ENOMEM;
	mutex_init(&owner->lock);
	INIT_LIST_HEAD(&owner->allocations);
	file->driver_priv = owner;
	return 0;
}

static void xcp_close(struct drm_device *drm, struct drm_file *file)
{
	vram_free(file->driver_priv);
	kfree(file->driver_priv);
}

static const struct drm_ioctl_desc ioctls[] = {
	[VRAM_ALLOCATE] = {
		.cmd = DRM_IOW(DRM_COMMAND_BASE + VRAM_ALLOCATE, u64),
		.func = vram_allocate,
		.flags = DRM_RENDER_ALLOW,
		.name = "VRAM_ALLOCATE",
	},
};

/* A holder may have memory mapped and no file open. */
static int xcp_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO); /* later kernels refuse the zero page */
	int err;

	if (!page)
		return -ENOMEM;
	err = vm_insert_page(vma, vma->vm_start, page);
	put_page(page); /* the mapping has a reference */
	return err;
}

static const struct file_operations fops = {
	.owner = THIS_MODULE,
	.open = drm_open,
	.release = drm_release,
	.unlocked_ioctl = drm_ioctl,
	.compat_ioctl = drm_compat_ioctl,
	.poll = drm_poll,
	.read = drm_read,
	.mmap = xcp_mmap,
	.llseek = noop_llseek,
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
	.show_fdinfo = drm_show_fdinfo, /* names the driver */
#endif
#ifdef FOP_UNSIGNED_OFFSET
	.fop_flags = FOP_UNSIGNED_OFFSET,
#endif
};

static const struct drm_driver driver = {
	.driver_features = DRIVER_RENDER,
	.open = xcp_open,
	.postclose = xcp_close,
	.ioctls = ioctls,
	.num_ioctls = ARRAY_SIZE(ioctls),
	.fops = &fops,
	.name = "amdgpu",
	.desc = "AMD GPU (simulated)",
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
	.date = "20150101",
#endif
	.major = 3,
	.minor = 64,
};

static int xcp_add(struct xcp *xcp, struct device *parent)
{
	int err;

	xcp->drm = drm_dev_alloc(&driver, parent);
	if (IS_ERR(xcp->drm)) {
		err = PTR_ERR(xcp->drm);
		xcp->drm = NULL;
		return err;
	}
	xcp->drm->dev_private = xcp;
	err = drm_dev_register(xcp->drm, 0);
	if (err) {
		drm_dev_put(xcp->drm);
		xcp->drm = NULL;
	}
	return err;
}

static void xcp_remove(struct xcp *xcp)
{
	if (xcp->drm) {
		drm_dev_unplug(xcp->drm);
		drm_dev_put(xcp->drm);
	}
	if (!IS_ERR_OR_NULL(xcp->platform))
		platform_device_unregister(xcp->platform);
}

int drm_add(struct gpu *gpu)
{
	unsigned int i;
	int err;

	for (i = 0; i < MAX_XCP; i++) {
		struct xcp *xcp = &gpu->xcp[i];
		struct device *parent = &gpu->pdev->dev;

		xcp->gpu = gpu;
		xcp->index = i;
		if (i > 0) {
			char name[sizeof("amdgpu_xcp_255")];

			snprintf(name, sizeof(name), "amdgpu_xcp_%u", gpu->index * (MAX_XCP - 1) + i - 1);
			xcp->platform = platform_device_register_simple(name, PLATFORM_DEVID_NONE, NULL, 0);
			if (IS_ERR(xcp->platform)) {
				err = PTR_ERR(xcp->platform);
				goto remove;
			}
			parent = &xcp->platform->dev;
		}
		err = xcp_add(xcp, parent);
		if (err)
			goto remove;
	}
	return 0;
remove:
	drm_remove(gpu);
	return err;
}

void drm_remove(struct gpu *gpu)
{
	int i;

	for (i = MAX_XCP - 1; i >= 0; i--)
		xcp_remove(&gpu->xcp[i]);
}
