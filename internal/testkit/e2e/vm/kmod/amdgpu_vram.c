// SPDX-License-Identifier: GPL-2.0
/*
 * VRAM, as far as cgroups count it: a region of the dmem controller for each GPU, as in
 * amdgpu_vram_mgr.c, and a private ioctl that charges bytes to the caller's cgroup.
 *
 * An allocation above a limit fails as in TTM with nothing to evict: with ENOMEM.
 */
#include <linux/slab.h>

#include "amdgpu.h"

#ifdef CONFIG_CGROUP_DMEM

#include <linux/cgroup_dmem.h>

/* An allocation of an open file, which ends with the file. */
struct allocation {
	struct list_head link;
	struct dmem_cgroup_pool_state *pool;
	u64 bytes;
};

int vram_add(struct gpu *gpu)
{
	const struct dmem_cgroup_init init = { .size = VRAM_BYTES };

	gpu->region = dmem_cgroup_register_region(&init, "drm/%s/vram", pci_name(gpu->pdev));
	return PTR_ERR_OR_ZERO(gpu->region);
}

void vram_remove(struct gpu *gpu)
{
	dmem_cgroup_unregister_region(gpu->region);
}

int vram_allocate(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct xcp *xcp = drm->dev_private;
	struct owner *owner = file->driver_priv;
	struct allocation *a = kzalloc(sizeof(*a), GFP_KERNEL);
	int err;

	if (!a)
		return -ENOMEM;
	a->bytes = *(u64 *)data;
	err = dmem_cgroup_try_charge(xcp->gpu->region, a->bytes, &a->pool, NULL);
	if (err) {
		kfree(a);
		return err == -EAGAIN ? -ENOMEM : err;
	}
	mutex_lock(&owner->lock);
	list_add(&a->link, &owner->allocations);
	mutex_unlock(&owner->lock);
	return 0;
}

void vram_free(struct owner *owner)
{
	struct allocation *a, *next;

	list_for_each_entry_safe(a, next, &owner->allocations, link) {
		dmem_cgroup_uncharge(a->pool, a->bytes);
		kfree(a);
	}
}

#else

int vram_add(struct gpu *gpu) { return 0; }
void vram_remove(struct gpu *gpu) { }
int vram_allocate(struct drm_device *drm, void *data, struct drm_file *file) { return 0; }
void vram_free(struct owner *owner) { }

#endif
