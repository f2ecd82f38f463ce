// SPDX-License-Identifier: GPL-2.0
/* The nvidia-uvm module: /dev/nvidia-uvm and nvidia-uvm-tools, with a dynamic major. */
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/pci.h>

#include "nvidia.h"

static int major;

static const struct file_operations fops = {
	.owner = THIS_MODULE,
	.llseek = noop_llseek,
};

static int __init uvm_init(void)
{
	pci_dev_put(nvidia_get_gpu(0)); /* the real one uses nvidia, too */
	major = __register_chrdev(0, 0, 2, "nvidia-uvm", &fops);
	return min(major, 0);
}
module_init(uvm_init);

static void __exit uvm_exit(void)
{
	__unregister_chrdev(major, 0, 2, "nvidia-uvm");
}
module_exit(uvm_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Stand-in of NVIDIA's UVM driver");
