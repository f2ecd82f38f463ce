// SPDX-License-Identifier: GPL-2.0
/* The nvidia-modeset module: /dev/nvidia-modeset, and what nvidia-drm holds GPUs by. */
#include <linux/fs.h>
#include <linux/module.h>

#include "nvidia.h"

int nvidia_modeset_hold(unsigned int minor, int change)
{
	return nvidia_hold(minor, change);
}
EXPORT_SYMBOL_GPL(nvidia_modeset_hold);

static const struct file_operations fops = {
	.owner = THIS_MODULE,
	.llseek = noop_llseek,
};

static int __init modeset_init(void)
{
	return __register_chrdev(NV_MAJOR, NV_MODESET, 1, "nvidia-modeset", &fops);
}
module_init(modeset_init);

static void __exit modeset_exit(void)
{
	__unregister_chrdev(NV_MAJOR, NV_MODESET, 1, "nvidia-modeset");
}
module_exit(modeset_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Stand-in of NVIDIA's modeset driver");
