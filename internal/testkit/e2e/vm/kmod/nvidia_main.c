// SPDX-License-Identifier: GPL-2.0
/*
 * The nvidia module: /dev/nvidiaN, /dev/nvidiactl and /proc/driver/nvidia. The driver
 * makes no device nodes: its library, nvidia-modprobe or udev rules do.
 */
#include <linux/capability.h>
#include <linux/cdev.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "nvidia.h"

struct nv_gpu {
	struct kref refs; /* of the driver, and of each open file */
	struct pci_dev *pdev;
	unsigned int minor;
	unsigned int files; /* open ones; protected by gpus_lock, as is holds */
	int holds;          /* uses from within the kernel */
	struct proc_dir_entry *dir;
};

static DEFINE_MUTEX(gpus_lock);
static struct nv_gpu *gpus[NV_MAX_GPUS]; /* by minor */
static struct proc_dir_entry *gpus_dir;

static void free_gpu(struct kref *refs)
{
	kfree(container_of(refs, struct nv_gpu, refs));
}

static struct nv_gpu *gpu_at(unsigned int minor)
{
	return minor < NV_MAX_GPUS ? gpus[minor] : NULL;
}

struct pci_dev *nvidia_get_gpu(unsigned int minor)
{
	struct pci_dev *pdev = NULL;

	mutex_lock(&gpus_lock);
	if (gpu_at(minor))
		pdev = pci_dev_get(gpu_at(minor)->pdev);
	mutex_unlock(&gpus_lock);
	return pdev;
}
EXPORT_SYMBOL_GPL(nvidia_get_gpu);

int nvidia_hold(unsigned int minor, int change)
{
	int err = -ENODEV;

	mutex_lock(&gpus_lock);
	if (gpu_at(minor)) {
		gpu_at(minor)->holds += change;
		err = 0;
	}
	mutex_unlock(&gpus_lock);
	return err;
}
EXPORT_SYMBOL_GPL(nvidia_hold);

/* Device nodes */

static int gpu_open(struct inode *inode, struct file *file)
{
	struct nv_gpu *gpu;

	mutex_lock(&gpus_lock);
	gpu = gpu_at(iminor(inode));
	if (gpu) {
		kref_get(&gpu->refs);
		gpu->files++;
		file->private_data = gpu;
	}
	mutex_unlock(&gpus_lock);
	return gpu ? 0 : -ENODEV;
}

static int gpu_release(struct inode *inode, struct file *file)
{
	struct nv_gpu *gpu = file->private_data;

	mutex_lock(&gpus_lock);
	gpu->files--;
	mutex_unlock(&gpus_lock);
	kref_put(&gpu->refs, free_gpu);
	return 0;
}

static long gpu_ioctl(struct file *file, unsigned int request, unsigned long argument)
{
	struct nv_gpu *gpu = file->private_data;
	u32 users;

	if (request != NV_IOC_USERS)
		return -ENOTTY;
	mutex_lock(&gpus_lock);
	users = gpu->files - 1 + gpu->holds;
	mutex_unlock(&gpus_lock);
	return put_user(users, (u32 __user *)argument);
}

static const struct file_operations gpu_fops = {
	.owner = THIS_MODULE,
	.open = gpu_open,
	.release = gpu_release,
	.unlocked_ioctl = gpu_ioctl,
	.llseek = noop_llseek,
};

static long ctl_ioctl(struct file *file, unsigned int request, unsigned long argument)
{
	struct nv_instances wanted;

	if (request != NV_IOC_INSTANCES)
		return -ENOTTY;
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (copy_from_user(&wanted, (void __user *)argument, sizeof(wanted)))
		return -EFAULT;
	return caps_set(&wanted);
}

static const struct file_operations ctl_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = ctl_ioctl,
	.llseek = noop_llseek,
};

/* /proc/driver/nvidia */

static int information_show(struct seq_file *out, void *unused)
{
	struct nv_gpu *gpu = out->private; /* its directory is removed first */

	seq_printf(out, "Model: \t\t NVIDIA H100-SXM-80GB\nIRQ:   \t\t 0\n");
	seq_printf(out, "GPU UUID: \t GPU-6c2b7e1f-0000-4000-8000-%012x\n", 0xd000 + gpu->minor);
	seq_printf(out, "Video BIOS: \t ??.??.??.??.??\nBus Type: \t PCIe\n");
	seq_printf(out, "Bus Location: \t %s\nDevice Minor: \t %u\n", pci_name(gpu->pdev), gpu->minor);
	seq_printf(out, "GPU Firmware: \t %s\nGPU Excluded:\t No\n", NV_VERSION);
	return 0;
}

static int version_show(struct seq_file *out, void *unused)
{
	seq_puts(out, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " NV_VERSION "  Release Build\n");
	return 0;
}

static int params_show(struct seq_file *out, void *unused)
{
	seq_puts(out, "ModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n");
	return 0;
}

/* Driver */

static int gpu_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct nv_gpu *gpu = kzalloc(sizeof(*gpu), GFP_KERNEL);
	unsigned int minor;
	int err;

	if (!gpu)
		return -ENOMEM;
	kref_init(&gpu->refs);
	gpu->pdev = pdev;
	mutex_lock(&gpus_lock);
	for (minor = 0; minor < NV_MAX_GPUS && gpus[minor];)
		minor++;
	err = minor < NV_MAX_GPUS ? caps_add_gpu(minor) : -ENOSPC;
	if (err) {
		mutex_unlock(&gpus_lock);
		kfree(gpu);
		return err;
	}
	gpu->minor = minor;
	gpus[minor] = gpu;
	mutex_unlock(&gpus_lock);
	gpu->dir = proc_mkdir(pci_name(pdev), gpus_dir);
	if (gpu->dir)
		proc_create_single_data("information", 0444, gpu->dir, information_show, gpu);
	pci_set_drvdata(pdev, gpu);
	return 0;
}

static void gpu_remove(struct pci_dev *pdev)
{
	struct nv_gpu *gpu = pci_get_drvdata(pdev);

	proc_remove(gpu->dir);
	mutex_lock(&gpus_lock);
	gpus[gpu->minor] = NULL;
	caps_remove_gpu(gpu->minor);
	mutex_unlock(&gpus_lock);
	kref_put(&gpu->refs, free_gpu);
}

static const struct pci_device_id ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID), .class = PCI_CLASS_DISPLAY_3D << 8, .class_mask = ~0 },
	{}
};
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver driver = {
	.name = "nvidia",
	.id_table = ids,
	.probe = gpu_probe,
	.remove = gpu_remove,
};

static int __init nvidia_init(void)
{
	struct proc_dir_entry *top;
	int err;

	err = __register_chrdev(NV_MAJOR, 0, NV_MODESET, "nvidia", &gpu_fops);
	if (err < 0)
		return err;
	err = __register_chrdev(NV_MAJOR, NV_CTL, 1, "nvidiactl", &ctl_fops);
	if (err < 0)
		goto gpus;
	err = -ENOMEM;
	top = proc_mkdir("driver/nvidia", NULL);
	gpus_dir = proc_mkdir("gpus", top);
	if (!top || !gpus_dir || !proc_create_single("version", 0444, top, version_show) ||
	    !proc_create_single("params", 0444, top, params_show))
		goto files;
	err = caps_init(top);
	if (err)
		goto files;
	err = pci_register_driver(&driver);
	if (!err)
		return 0;
	caps_exit();
files:
	proc_remove(top);
	__unregister_chrdev(NV_MAJOR, NV_CTL, 1, "nvidiactl");
gpus:
	__unregister_chrdev(NV_MAJOR, 0, NV_MODESET, "nvidia");
	return err;
}
module_init(nvidia_init);

static void __exit nvidia_exit(void)
{
	pci_unregister_driver(&driver);
	caps_exit();
	remove_proc_subtree("driver/nvidia", NULL);
	__unregister_chrdev(NV_MAJOR, NV_CTL, 1, "nvidiactl");
	__unregister_chrdev(NV_MAJOR, 0, NV_MODESET, "nvidia");
}
module_exit(nvidia_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(NV_VERSION);
MODULE_DESCRIPTION("Stand-in of NVIDIA's driver: its device nodes and /proc files");
