// SPDX-License-Identifier: GPL-2.0
/*
 * The nvidia-drm module: a DRM device for each GPU. With modeset it holds the GPUs from
 * within the kernel, where no process shows it.
 */
#include <linux/module.h>
#include <linux/version.h>

#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_ioctl.h>

#include "nvidia.h"

static bool modeset = true;
module_param(modeset, bool, 0400);
MODULE_PARM_DESC(modeset, "hold the GPUs for displays");

static struct drm_device *devices[NV_MAX_GPUS]; /* by minor of the GPU */

static const struct file_operations fops = {
	.owner = THIS_MODULE,
	.open = drm_open,
	.release = drm_release,
	.unlocked_ioctl = drm_ioctl,
	.compat_ioctl = drm_compat_ioctl,
	.poll = drm_poll,
	.read = drm_read,
	.llseek = noop_llseek,
#ifdef FOP_UNSIGNED_OFFSET
	.fop_flags = FOP_UNSIGNED_OFFSET,
#endif
};

static const struct drm_driver driver = {
	.driver_features = DRIVER_RENDER,
	.fops = &fops,
	.name = "nvidia-drm",
	.desc = "NVIDIA DRM driver (simulated)",
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
	.date = "20160202",
#endif
};

static int add(unsigned int minor, struct pci_dev *pdev)
{
	struct drm_device *drm = drm_dev_alloc(&driver, &pdev->dev);
	int err;

	if (IS_ERR(drm))
		return PTR_ERR(drm);
	err = drm_dev_register(drm, 0);
	if (err) {
		drm_dev_put(drm);
		return err;
	}
	devices[minor] = drm;
	return modeset ? nvidia_modeset_hold(minor, 1) : 0;
}

static void remove_all(void)
{
	unsigned int i;

	for (i = 0; i < NV_MAX_GPUS; i++)
		if (devices[i]) {
			if (modeset)
				nvidia_modeset_hold(i, -1);
			drm_dev_unplug(devices[i]);
			drm_dev_put(devices[i]);
		}
}

static int __init nvidia_drm_init(void)
{
	struct pci_dev *pdev;
	unsigned int i;
	int err = 0;

	for (i = 0; !err && i < NV_MAX_GPUS; i++) {
		pdev = nvidia_get_gpu(i);
		if (pdev)
			err = add(i, pdev);
		pci_dev_put(pdev);
	}
	if (err)
		remove_all();
	return err;
}
module_init(nvidia_drm_init);

static void __exit nvidia_drm_exit(void)
{
	remove_all();
}
module_exit(nvidia_drm_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Stand-in of NVIDIA's DRM driver");
