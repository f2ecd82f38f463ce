// SPDX-License-Identifier: GPL-2.0
/*
 * A stand-in for the amdgpu driver: partition modes, DRM nodes and KFD of GPUs that
 * fakehive provides. It computes nothing.
 *
 * Behaviour follows amdgpu_gfx.c (compute modes), amdgpu_gmc.c (memory modes),
 * amdgpu_xcp.c and amdxcp (DRM nodes of partitions), and amdkfd (topology, processes).
 */
#include <linux/delay.h>
#include <linux/module.h>

#include "amdgpu.h"

static int user_partt_mode = -1;
module_param(user_partt_mode, int, 0444);
MODULE_PARM_DESC(user_partt_mode, "compute mode at load: 0 SPX, 1 DPX, 2 TPX, 3 QPX, 4 CPX (default: by memory mode)");

DEFINE_MUTEX(devices);
LIST_HEAD(gpus);

u8 fw_read(struct gpu *gpu, int reg)
{
	u8 value = 0;

	pci_read_config_byte(gpu->pdev, reg, &value);
	return value;
}

u16 fw_read16(struct gpu *gpu, int reg)
{
	u16 value = 0;

	pci_read_config_word(gpu->pdev, reg, &value);
	return value;
}

void fw_write(struct gpu *gpu, int reg, u8 value)
{
	pci_write_config_byte(gpu->pdev, reg, value);
}

/* fw_fault returns the injected error of a register as a negative errno, or 0. */
int fw_fault(struct gpu *gpu, int reg)
{
	u8 fault = fw_read(gpu, reg);

	if (!(fault & FH_EVERY))
		fw_write(gpu, reg, 0);
	return -(int)(fault & ~FH_EVERY);
}

static void insert(struct gpu *gpu)
{
	struct gpu *other;

	list_for_each_entry(other, &gpus, link)
		if (other->index > gpu->index)
			break;
	list_add_tail(&gpu->link, &other->link);
}

static int gpu_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct gpu *gpu;
	int err;

	gpu = kzalloc(sizeof(*gpu), GFP_KERNEL);
	if (!gpu)
		return -ENOMEM;
	gpu->pdev = pdev;
	err = fw_fault(gpu, FH_FAIL_PROBE);
	if (err)
		goto free;
	msleep(fw_read16(gpu, FH_PROBE_MS));
	gpu->index = fw_read(gpu, FH_INDEX);
	gpu->xccs = min_t(unsigned int, fw_read(gpu, FH_XCCS), MAX_XCP);
	gpu->mode = default_mode(fw_read(gpu, FH_NPS));
	if (user_partt_mode >= 0 && user_partt_mode < NR_COMPUTE &&
	    mode_valid(gpu, user_partt_mode, fw_read(gpu, FH_NPS)))
		gpu->mode = user_partt_mode;
	gpu->config = gpu->mode;
	err = vram_add(gpu);
	if (err)
		goto free;
	err = drm_add(gpu);
	if (err)
		goto vram;
	err = partition_add_dirs(gpu);
	if (err)
		goto drm;
	pci_set_drvdata(pdev, gpu);
	mutex_lock(&devices);
	insert(gpu);
	err = kfd_rebuild();
	mutex_unlock(&devices);
	if (err)
		dev_err(&pdev->dev, "KFD topology: %d\n", err);
	err = console_add(gpu);
	if (err)
		dev_err(&pdev->dev, "framebuffer: %d\n", err);
	return 0;
drm:
	drm_remove(gpu);
vram:
	vram_remove(gpu);
free:
	kfree(gpu);
	return err;
}

/* The firmware takes up a requested memory mode when the driver lets go of the GPU. */
static void gpu_remove(struct pci_dev *pdev)
{
	struct gpu *gpu = pci_get_drvdata(pdev);
	u8 request;

	mutex_lock(&devices);
	list_del(&gpu->link);
	kfd_rebuild();
	mutex_unlock(&devices);
	console_remove(gpu);
	partition_remove_dirs(gpu);
	drm_remove(gpu);
	vram_remove(gpu);
	request = fw_read(gpu, FH_NPS_REQUEST);
	if (request) {
		fw_write(gpu, FH_NPS, request);
		fw_write(gpu, FH_NPS_REQUEST, 0);
	}
	kfree(gpu);
}

static const struct pci_device_id ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_ATI, 0x74a0) },
	{ PCI_DEVICE(PCI_VENDOR_ID_ATI, 0x74a1) },
	{ PCI_DEVICE(PCI_VENDOR_ID_ATI, 0x74a5) },
	{ PCI_DEVICE(PCI_VENDOR_ID_ATI, 0x75a0) },
	{ PCI_DEVICE(PCI_VENDOR_ID_ATI, 0x75a3) },
	{ }
};
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver driver = {
	.name = "amdgpu",
	.id_table = ids,
	.probe = gpu_probe,
	.remove = gpu_remove,
	.dev_groups = partition_groups,
};

static int __init amdgpu_init(void)
{
	int err = kfd_init();

	if (err)
		return err;
	err = pci_register_driver(&driver);
	if (err)
		kfd_exit();
	return err;
}
module_init(amdgpu_init);

static void __exit amdgpu_exit(void)
{
	pci_unregister_driver(&driver);
	kfd_exit();
}
module_exit(amdgpu_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Stand-in for amdgpu: partition modes of simulated GPUs");
