// SPDX-License-Identifier: GPL-2.0
/*
 * The partition files of a GPU in sysfs.
 *
 * The memory mode is a property of the XGMI hive and takes effect at the next load of the
 * driver. The errors are those of amdgpu_gfx_set_compute_partition and
 * current_memory_partition_store.
 */
#include <linux/delay.h>

#include "amdgpu.h"

static const char * const compute_names[NR_COMPUTE] = { "SPX", "DPX", "TPX", "QPX", "CPX" };
static const unsigned int nps_modes[] = { 1, 2, 4, 8 };

enum compute default_mode(unsigned int nps)
{
	return nps == 1 ? SPX : nps == 2 ? DPX : CPX;
}

/* mode_valid is the driver's table of compute and memory modes (gfx_v9_4_3, gfx_v9_5_0). */
bool mode_valid(const struct gpu *gpu, enum compute mode, unsigned int nps)
{
	bool gfx950 = gpu->pdev->device == 0x75a0 || gpu->pdev->device == 0x75a3;

	if (gpu->xccs == 6)
		return nps == 1 && (mode == SPX || mode == TPX || mode == CPX);
	switch (mode) {
	case SPX: return nps == 1;
	case DPX: return nps == 1 || nps == 2;
	case QPX:
	case CPX: return nps == 1 || nps == 4 || (nps == 2 && gfx950);
	default: return false;
	}
}

static bool nps_supported(const struct gpu *gpu, unsigned int nps)
{
	return nps == 1 || (gpu->xccs != 6 && (nps == 2 || nps == 4));
}

static struct gpu *to_gpu(struct device *dev)
{
	return pci_get_drvdata(to_pci_dev(dev));
}

static int parse_compute(const char *buf, enum compute *mode)
{
	int i = __sysfs_match_string(compute_names, NR_COMPUTE, buf);

	if (i < 0)
		return -EINVAL;
	*mode = i;
	return 0;
}

static ssize_t current_compute_partition_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", compute_names[READ_ONCE(to_gpu(dev)->mode)]);
}

static int set_compute(struct gpu *gpu, enum compute mode)
{
	int err;

	if (!mode_valid(gpu, mode, fw_read(gpu, FH_NPS)))
		return -EINVAL;
	if (gpu->resetting)
		return -EPERM;
	if (mode == gpu->mode)
		return 0;
	if (kfd_busy(gpu))
		return -EBUSY;
	err = fw_fault(gpu, FH_FAIL_COMPUTE);
	if (err && err != -EIO)
		return err;
	/* Other GPUs may be switched meanwhile. The caller's open attribute keeps this one. */
	gpu->switching = true;
	mutex_unlock(&devices);
	msleep(fw_read16(gpu, FH_SWITCH_MS));
	mutex_lock(&devices);
	gpu->switching = false;
	WRITE_ONCE(gpu->mode, mode);
	gpu->config = mode;
	/* EIO: KFD did not come up again after the switch was done. */
	return kfd_rebuild() ?: err;
}

static ssize_t current_compute_partition_store(struct device *dev, struct device_attribute *attr,
					       const char *buf, size_t count)
{
	struct gpu *gpu = to_gpu(dev);
	enum compute mode;
	int err = parse_compute(buf, &mode);

	if (err)
		return err;
	mutex_lock(&devices);
	err = set_compute(gpu, mode);
	mutex_unlock(&devices);
	return err ?: count;
}
static DEVICE_ATTR_RW(current_compute_partition);

static ssize_t list_compute(struct gpu *gpu, unsigned int nps, char *buf)
{
	ssize_t n = 0;
	int i;

	for (i = 0; i < NR_COMPUTE; i++)
		if (mode_valid(gpu, i, nps))
			n += sysfs_emit_at(buf, n, "%s%s", n ? ", " : "", compute_names[i]);
	return n + sysfs_emit_at(buf, n, "\n");
}

static ssize_t available_compute_partition_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return list_compute(to_gpu(dev), fw_read(to_gpu(dev), FH_NPS), buf);
}
static DEVICE_ATTR_RO(available_compute_partition);

static ssize_t current_memory_partition_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "NPS%u\n", fw_read(to_gpu(dev), FH_NPS));
}

/* The request goes to every GPU of the hive. */
static int request_nps(struct gpu *gpu, unsigned int nps)
{
	struct gpu *other;
	int err;

	if (!nps_supported(gpu, nps))
		return -EINVAL;
	if (gpu->xccs == 6)
		return -EOPNOTSUPP;
	if (nps == fw_read(gpu, FH_NPS))
		return 0; /* does not cancel a pending request */
	err = fw_fault(gpu, FH_FAIL_MEMORY);
	if (err)
		return err;
	if (!fw_read(gpu, FH_HIVE)) {
		fw_write(gpu, FH_NPS_REQUEST, nps);
		return 0;
	}
	list_for_each_entry(other, &gpus, link)
		fw_write(other, FH_NPS_REQUEST, nps);
	return 0;
}

static ssize_t current_memory_partition_store(struct device *dev, struct device_attribute *attr,
					      const char *buf, size_t count)
{
	unsigned int nps;
	int err;

	if (sscanf(buf, "NPS%u", &nps) != 1)
		return -EINVAL;
	mutex_lock(&devices);
	err = request_nps(to_gpu(dev), nps);
	mutex_unlock(&devices);
	return err ?: count;
}
static DEVICE_ATTR_RW(current_memory_partition);

static ssize_t list_nps(struct gpu *gpu, bool (*valid)(struct gpu *gpu, unsigned int nps), char *buf)
{
	ssize_t n = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(nps_modes); i++)
		if (valid(gpu, nps_modes[i]))
			n += sysfs_emit_at(buf, n, "%sNPS%u", n ? ", " : "", nps_modes[i]);
	return n + sysfs_emit_at(buf, n, "\n");
}

static bool nps_listed(struct gpu *gpu, unsigned int nps)
{
	return nps_supported(gpu, nps);
}

static ssize_t available_memory_partition_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return list_nps(to_gpu(dev), nps_listed, buf);
}
static DEVICE_ATTR_RO(available_memory_partition);

static ssize_t unique_id_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%016x\n", 0x1000 + to_gpu(dev)->index);
}
static DEVICE_ATTR_RO(unique_id);

static ssize_t mem_info_vram_total_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", VRAM_BYTES);
}
static DEVICE_ATTR_RO(mem_info_vram_total);

static struct attribute *partition_attrs[] = {
	&dev_attr_current_compute_partition.attr,
	&dev_attr_available_compute_partition.attr,
	&dev_attr_current_memory_partition.attr,
	&dev_attr_available_memory_partition.attr,
	&dev_attr_unique_id.attr,
	&dev_attr_mem_info_vram_total.attr,
	NULL
};

/* An APU has one memory mode: the driver shows it read-only and lists none. */
static umode_t visible(struct kobject *kobj, struct attribute *attr, int n)
{
	struct gpu *gpu = to_gpu(kobj_to_dev(kobj));

	if (gpu->xccs == 6 && attr == &dev_attr_available_memory_partition.attr)
		return 0;
	if (gpu->xccs == 6 && attr == &dev_attr_current_memory_partition.attr)
		return 0444;
	return attr->mode;
}

static const struct attribute_group partition_group = { .attrs = partition_attrs, .is_visible = visible };
const struct attribute_group *partition_groups[] = { &partition_group, NULL };

/* compute_partition_config: its files describe the mode last written to xcp_config. */

struct gpu_dir {
	struct kobject kobj;
	struct gpu *gpu;
};

static struct gpu *dir_gpu(struct kobject *kobj)
{
	return container_of(kobj, struct gpu_dir, kobj)->gpu;
}

static ssize_t supported_xcp_configs_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct gpu *gpu = dir_gpu(kobj);
	ssize_t n = 0;
	int i, j;

	for (i = 0; i < NR_COMPUTE; i++)
		for (j = 0; j < ARRAY_SIZE(nps_modes); j++)
			if (mode_valid(gpu, i, nps_modes[j])) {
				n += sysfs_emit_at(buf, n, "%s%s", n ? ", " : "", compute_names[i]);
				break;
			}
	return n + sysfs_emit_at(buf, n, "\n");
}
static struct kobj_attribute supported_xcp_configs = __ATTR_RO(supported_xcp_configs);

static bool nps_of_config(struct gpu *gpu, unsigned int nps)
{
	return nps_supported(gpu, nps) && mode_valid(gpu, gpu->config, nps);
}

static ssize_t supported_nps_configs_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return list_nps(dir_gpu(kobj), nps_of_config, buf);
}
static struct kobj_attribute supported_nps_configs = __ATTR_RO(supported_nps_configs);

static ssize_t xcp_config_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", compute_names[dir_gpu(kobj)->config]);
}

static ssize_t xcp_config_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf, size_t count)
{
	struct gpu *gpu = dir_gpu(kobj);
	enum compute mode;
	int i, err = parse_compute(buf, &mode);

	if (err)
		return err;
	for (i = 0; i < ARRAY_SIZE(nps_modes); i++)
		if (mode_valid(gpu, mode, nps_modes[i])) {
			gpu->config = mode;
			return count;
		}
	return -EINVAL;
}
static struct kobj_attribute xcp_config = __ATTR_RW(xcp_config);

static struct attribute *config_attrs[] = {
	&supported_xcp_configs.attr, &supported_nps_configs.attr, &xcp_config.attr, NULL
};
ATTRIBUTE_GROUPS(config);

static ssize_t xgmi_hive_id_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", 0xd1ce);
}
static struct kobj_attribute xgmi_hive_id = __ATTR_RO(xgmi_hive_id);

static struct attribute *hive_attrs[] = { &xgmi_hive_id.attr, NULL };
ATTRIBUTE_GROUPS(hive);

static void dir_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct gpu_dir, kobj));
}

static const struct kobj_type config_type = {
	.release = dir_release, .sysfs_ops = &kobj_sysfs_ops, .default_groups = config_groups,
};
static const struct kobj_type hive_type = {
	.release = dir_release, .sysfs_ops = &kobj_sysfs_ops, .default_groups = hive_groups,
};

static struct kobject *add_dir(struct gpu *gpu, const struct kobj_type *type, const char *name)
{
	struct gpu_dir *dir = kzalloc(sizeof(*dir), GFP_KERNEL);

	if (!dir)
		return NULL;
	dir->gpu = gpu;
	if (kobject_init_and_add(&dir->kobj, (struct kobj_type *)type, &gpu->pdev->dev.kobj, "%s", name)) {
		kobject_put(&dir->kobj);
		return NULL;
	}
	return &dir->kobj;
}

int partition_add_dirs(struct gpu *gpu)
{
	gpu->config_dir = add_dir(gpu, &config_type, "compute_partition_config");
	if (gpu->config_dir && fw_read(gpu, FH_HIVE))
		gpu->hive_dir = add_dir(gpu, &hive_type, "xgmi_hive_info");
	return gpu->config_dir ? 0 : -ENOMEM;
}

void partition_remove_dirs(struct gpu *gpu)
{
	struct kobject *dirs[] = { gpu->config_dir, gpu->hive_dir };
	int i;

	for (i = 0; i < ARRAY_SIZE(dirs); i++)
		if (dirs[i]) {
			kobject_del(dirs[i]); /* waits for readers */
			kobject_put(dirs[i]);
		}
}
