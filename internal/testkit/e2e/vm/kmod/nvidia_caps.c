// SPDX-License-Identifier: GPL-2.0
/*
 * The capabilities: one character device for each instance, and files in /proc that name
 * their minors. A file exists as long as its instance does, a minor always.
 */
#include <linux/bitmap.h>
#include <linux/cdev.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#include "nvidia.h"

#define NR_MINORS	8192

static DEFINE_MUTEX(caps_lock);
static dev_t number;
static struct cdev cdev;
static struct proc_dir_entry *caps_dir;
static struct proc_dir_entry *mig_dirs[NV_MAX_GPUS];	/* capabilities/gpuN/mig */
static struct proc_dir_entry *gpu_dirs[NV_MAX_GPUS];	/* capabilities/gpuN */
static u64 present[NV_MAX_GPUS][NV_CAPS_WORDS];

static bool has(const u64 *set, unsigned int bit)
{
	return set[bit / 64] >> (bit % 64) & 1;
}

static const struct file_operations cap_fops = {
	.owner = THIS_MODULE,
	.llseek = noop_llseek,
};

static int access_show(struct seq_file *out, void *unused)
{
	unsigned long minor = (unsigned long)out->private;
	unsigned int mode = minor == NV_CAP_CONFIG ? 0400 : 0444;

	seq_printf(out, "DeviceFileMinor: %lu\nDeviceFileMode: %u\nDeviceFileModify: 1\n", minor, mode);
	return 0;
}

static int add_file(const char *name, struct proc_dir_entry *dir, unsigned long minor)
{
	return proc_create_single_data(name, 0444, dir, access_show, (void *)minor) ? 0 : -ENOMEM;
}

/* add_dir makes NAME/access. */
static int add_dir(const char *name, struct proc_dir_entry *dir, unsigned long minor)
{
	struct proc_dir_entry *made = proc_mkdir(name, dir);

	return made ? add_file("access", made, minor) : -ENOMEM;
}

/* set_one makes or removes the directory of an instance: "gi2", or "gi2/ci0". */
static int set_one(unsigned int gpu, unsigned int bit, bool there)
{
	unsigned int gi = bit / NV_CAPS_PER_GI, ci = bit % NV_CAPS_PER_GI;
	char name[sizeof("gi14/ci7")];

	if (ci)
		snprintf(name, sizeof(name), "gi%u/ci%u", gi, ci - 1);
	else
		snprintf(name, sizeof(name), "gi%u", gi);
	if (!there) {
		remove_proc_subtree(name, mig_dirs[gpu]);
		return 0;
	}
	return add_dir(name, mig_dirs[gpu], NV_CAP_FIRST + gpu * NV_CAPS_PER_GPU + bit);
}

/*
 * A GPU instance comes before its compute instances in the order of the bits: it is made
 * before them and removed after them.
 */
int caps_set(const struct nv_instances *wanted)
{
	unsigned int gpu = wanted->minor;
	int bit, err = 0;

	if (gpu >= NV_MAX_GPUS)
		return -EINVAL;
	mutex_lock(&caps_lock);
	if (!mig_dirs[gpu])
		err = -ENODEV;
	for (bit = NV_CAPS_PER_GPU - 1; !err && bit >= 0; bit--)
		if (has(present[gpu], bit) && !has(wanted->present, bit))
			set_one(gpu, bit, false);
	for (bit = 0; !err && bit < NV_CAPS_PER_GPU; bit++)
		if (!has(present[gpu], bit) && has(wanted->present, bit))
			err = set_one(gpu, bit, true);
	if (!err)
		memcpy(present[gpu], wanted->present, sizeof(present[gpu]));
	mutex_unlock(&caps_lock);
	return err;
}

int caps_add_gpu(unsigned int minor)
{
	char name[sizeof("gpu31")];

	snprintf(name, sizeof(name), "gpu%u", minor);
	mutex_lock(&caps_lock);
	gpu_dirs[minor] = proc_mkdir(name, caps_dir);
	if (gpu_dirs[minor])
		mig_dirs[minor] = proc_mkdir("mig", gpu_dirs[minor]);
	mutex_unlock(&caps_lock);
	return mig_dirs[minor] ? 0 : -ENOMEM;
}

void caps_remove_gpu(unsigned int minor)
{
	mutex_lock(&caps_lock);
	proc_remove(gpu_dirs[minor]);
	gpu_dirs[minor] = mig_dirs[minor] = NULL;
	memset(present[minor], 0, sizeof(present[minor]));
	mutex_unlock(&caps_lock);
}

static int mig_minors_show(struct seq_file *out, void *unused)
{
	unsigned int gpu, gi, ci, minor = NV_CAP_FIRST;

	seq_printf(out, "config %u\nmonitor %u\n", NV_CAP_CONFIG, NV_CAP_MONITOR);
	for (gpu = 0; gpu < NV_MAX_GPUS; gpu++)
		for (gi = 0; gi < NV_CAPS_PER_GPU / NV_CAPS_PER_GI; gi++) {
			seq_printf(out, "gpu%u/gi%u/access %u\n", gpu, gi, minor++);
			for (ci = 0; ci < NV_CAPS_PER_GI - 1; ci++)
				seq_printf(out, "gpu%u/gi%u/ci%u/access %u\n", gpu, gi, ci, minor++);
		}
	return 0;
}

int caps_init(struct proc_dir_entry *driver)
{
	struct proc_dir_entry *mig, *minors;
	int err = alloc_chrdev_region(&number, 0, NR_MINORS, "nvidia-caps");

	if (err)
		return err;
	cdev_init(&cdev, &cap_fops);
	cdev.owner = THIS_MODULE;
	err = cdev_add(&cdev, number, NR_MINORS);
	if (err)
		goto region;
	err = -ENOMEM;
	minors = proc_mkdir("driver/nvidia-caps", NULL);
	caps_dir = proc_mkdir("capabilities", driver);
	mig = proc_mkdir("mig", caps_dir);
	if (minors && caps_dir && mig && proc_create_single("mig-minors", 0444, minors, mig_minors_show) &&
	    !add_file("config", mig, NV_CAP_CONFIG) && !add_file("monitor", mig, NV_CAP_MONITOR))
		return 0;
	proc_remove(minors);
	cdev_del(&cdev);
region:
	unregister_chrdev_region(number, NR_MINORS);
	return err;
}

/* The files below capabilities go with the driver's directory. */
void caps_exit(void)
{
	remove_proc_subtree("driver/nvidia-caps", NULL);
	cdev_del(&cdev);
	unregister_chrdev_region(number, NR_MINORS);
}
