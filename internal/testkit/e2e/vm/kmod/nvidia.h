/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the modules that stand in for NVIDIA's driver: nvidia, nvidia-modeset,
 * nvidia-uvm and nvidia-drm. They have its device numbers, files in /proc and use counts,
 * and no GPU. The stand-in of libnvidia-ml keeps the instances. It sends them to the driver
 * by an ioctl(2) of its own.
 */
#ifndef NVIDIA_H
#define NVIDIA_H

#include <linux/ioctl.h>
#include <linux/pci.h>
#include <linux/types.h>

#define NV_VERSION	"580.82.07"
#define NV_MAJOR	195
#define NV_MAX_GPUS	32
#define NV_MODESET	254	/* minors of NV_MAJOR */
#define NV_CTL		255

/* Capabilities: minors as in mig-minors. */
#define NV_CAP_CONFIG	1
#define NV_CAP_MONITOR	2
#define NV_CAP_FIRST	3
#define NV_CAPS_PER_GPU	135	/* 15 GPU instances with 8 compute instances each */
#define NV_CAPS_PER_GI	9
#define NV_CAPS_WORDS	3

/* The instances of a GPU: bit 9*GI for a GPU instance, 9*GI+1+CI for a compute instance. */
struct nv_instances {
	__u32 minor;
	__u32 unused;
	__u64 present[NV_CAPS_WORDS];
};

/* On /dev/nvidiaN: how many others use the GPU. On /dev/nvidiactl: what instances there are. */
#define NV_IOC_USERS		_IOR('N', 0xd0, __u32)
#define NV_IOC_INSTANCES	_IOW('N', 0xd1, struct nv_instances)

/* nvidia_main.c */
struct pci_dev *nvidia_get_gpu(unsigned int minor); /* NULL if there is none; pci_dev_put() */
int nvidia_hold(unsigned int minor, int change);    /* a use from within the kernel */

/* nvidia_caps.c */
struct proc_dir_entry;
int caps_init(struct proc_dir_entry *driver);
void caps_exit(void);
int caps_add_gpu(unsigned int minor);
void caps_remove_gpu(unsigned int minor);
int caps_set(const struct nv_instances *wanted);

/* nvidia_modeset.c */
int nvidia_modeset_hold(unsigned int minor, int change);

#endif
