/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the parts of the simulated amdgpu driver. */
#ifndef AMDGPU_H
#define AMDGPU_H

#include <linux/device.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/platform_device.h>

#include <drm/drm_device.h>
#include <drm/drm_file.h>

#include "fakehive.h"

#define MAX_XCP 8

enum compute { SPX, DPX, TPX, QPX, CPX, NR_COMPUTE };

struct xcp {
	struct gpu *gpu;
	unsigned int index;
	struct drm_device *drm;
	struct platform_device *platform; /* NULL for the first, which is the PCI device's */
};

struct gpu {
	struct list_head link;     /* in gpus, ordered by PCI address */
	struct pci_dev *pdev;
	unsigned int index;        /* FH_INDEX */
	unsigned int xccs;
	enum compute mode;
	enum compute config;       /* selected in compute_partition_config/xcp_config */
	bool resetting;
	bool switching;            /* KFD is locked for a compute switch; devices is not held meanwhile */
	struct xcp xcp[MAX_XCP];
	struct kobject *config_dir;
	struct kobject *hive_dir;
#ifdef CONFIG_CGROUP_DMEM
	struct dmem_cgroup_region *region;
#endif
};

/* The memory that a process has allocated by an open DRM node. */
struct owner {
	struct mutex lock;
	struct list_head allocations;
};

/* devices protects the list of GPUs, their modes, and the KFD topology. */
extern struct mutex devices;
extern struct list_head gpus;

static inline unsigned int partitions(const struct gpu *gpu, enum compute mode)
{
	switch (mode) {
	case DPX: return 2;
	case TPX: return 3;
	case QPX: return 4;
	case CPX: return gpu->xccs;
	default: return 1;
	}
}

static inline unsigned int render_minor(const struct xcp *xcp)
{
	return xcp->drm->render->index;
}

u8 fw_read(struct gpu *gpu, int reg);
u16 fw_read16(struct gpu *gpu, int reg);
void fw_write(struct gpu *gpu, int reg, u8 value);
int fw_fault(struct gpu *gpu, int reg);

/* amdgpu_drm.c */
int drm_add(struct gpu *gpu);
void drm_remove(struct gpu *gpu);

/* amdgpu_vram.c */
#define VRAM_ALLOCATE 0x5f /* a private ioctl of DRM, with the number of bytes */
int vram_add(struct gpu *gpu);
void vram_remove(struct gpu *gpu);
int vram_allocate(struct drm_device *drm, void *data, struct drm_file *file);
void vram_free(struct owner *owner);

/* amdgpu_partition.c */
extern const struct attribute_group *partition_groups[];
bool mode_valid(const struct gpu *gpu, enum compute mode, unsigned int nps);
enum compute default_mode(unsigned int nps);
int partition_add_dirs(struct gpu *gpu);
void partition_remove_dirs(struct gpu *gpu);

/* amdgpu_kfd.c */
int kfd_init(void);
void kfd_exit(void);
int kfd_rebuild(void);                /* devices is held */
bool kfd_busy(struct gpu *gpu);       /* a KFD process is attached, or a switch goes on; devices is held */

/* amdgpu_fb.c */
int console_add(struct gpu *gpu);
void console_remove(struct gpu *gpu);

#define VRAM_BYTES (192ULL << 30)

#endif
