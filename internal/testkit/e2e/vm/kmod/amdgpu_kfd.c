// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/kfd, the KFD topology and the KFD processes (amdkfd).
 *
 * A process becomes a KFD process when it opens /dev/kfd. It is then attached to every
 * partition whose render node its device cgroup permits, and stays attached until the
 * end of its address space, whatever it closes. The files vram_GPUID of its directory show
 * the partitions. Teardown is asynchronous. The open fails while a GPU that the process
 * may use is locked for a switch.
 */
#include <linux/cdev.h>
#include <linux/device_cgroup.h>
#include <linux/module.h>
#include <linux/mmu_notifier.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/workqueue.h>

#include <drm/drm_file.h>

#include "amdgpu.h"

#define DRM_MAJOR_NUMBER 226

static bool check_all_gpus;
module_param(check_all_gpus, bool, 0644);
MODULE_PARM_DESC(check_all_gpus, "a KFD process on any GPU blocks a switch of every GPU (older kernels)");

static int major;
static struct class *kfd_class;
static struct device *kfd_device;
static struct kobject *topology_dir, *nodes_dir, *proc_dir;
static unsigned int generation;

/* A KFD node: the CPU, or an active partition. */
struct node {
	struct kobject kobj;
	struct kobject *banks, *bank;
	struct xcp *xcp; /* NULL: the CPU */
	unsigned int minor, index, of;
};

#define MAX_NODES (1 + 8 * MAX_XCP)
static struct node *nodes[MAX_NODES];
static unsigned int nr_nodes;

/* vram_GPUID of a KFD process. */
struct vram {
	struct kobj_attribute attr;
	char name[16];
};

/* A KFD process; protected by devices. */
struct process {
	struct mmu_notifier notifier;
	struct list_head link;
	struct work_struct begin_teardown;
	struct delayed_work teardown;
	struct kobject *dir;
	pid_t pid;
	DECLARE_BITMAP(attached, 8); /* GPUs by FH_INDEX */
	unsigned int nr_vram;
	struct vram vram[8 * MAX_XCP];
};

static LIST_HEAD(processes);

static bool permitted(unsigned int minor)
{
	return devcgroup_check_permission(DEVCG_DEV_CHAR, DRM_MAJOR_NUMBER, minor, DEVCG_ACC_READ | DEVCG_ACC_WRITE) == 0;
}

/* Topology */

static unsigned int kfd_id(const struct xcp *xcp)
{
	return xcp ? (xcp->gpu->index * MAX_XCP + xcp->index + 1) * 1013 : 0;
}

static struct node *to_node(struct kobject *kobj)
{
	return container_of(kobj, struct node, kobj);
}

static bool readable(struct node *n)
{
	return !n->xcp || permitted(n->minor);
}

static ssize_t gpu_id_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct node *n = to_node(kobj);

	return readable(n) ? sysfs_emit(buf, "%u\n", kfd_id(n->xcp)) : -EPERM;
}
static struct kobj_attribute gpu_id = __ATTR_RO(gpu_id);

static ssize_t name_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct node *n = to_node(kobj);

	return readable(n) ? sysfs_emit(buf, "%s\n", n->xcp ? "ip discovery" : "") : -EPERM;
}
static struct kobj_attribute name = __ATTR_RO(name);

static ssize_t properties_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct node *n = to_node(kobj);
	struct gpu *gpu;
	ssize_t at = 0;
	u32 location;
	unsigned int xccs;

	if (!readable(n))
		return -EPERM;
	if (!n->xcp)
		return sysfs_emit(buf, "cpu_cores_count 2\nsimd_count 0\nmem_banks_count 1\ndrm_render_minor 0\nnum_xcc 0\n");
	gpu = n->xcp->gpu;
	xccs = max(1U, gpu->xccs / n->of);
	location = pci_dev_id(gpu->pdev) | (n->of > 1 ? n->index << 28 : 0);
	at += sysfs_emit_at(buf, at, "cpu_cores_count 0\nsimd_count %u\nmem_banks_count 1\n", 38 * 4 * xccs);
	at += sysfs_emit_at(buf, at, "simd_per_cu 4\ngfx_target_version 90402\nvendor_id %u\ndevice_id %u\n",
			    gpu->pdev->vendor, gpu->pdev->device);
	at += sysfs_emit_at(buf, at, "location_id %u\ndomain %u\ndrm_render_minor %u\n",
			    location, pci_domain_nr(gpu->pdev->bus), n->minor);
	at += sysfs_emit_at(buf, at, "hive_id %u\nunique_id %u\nnum_xcc %u\n",
			    gpu->hive_dir ? 0xd1ce : 0, 0x1000 + gpu->index, xccs);
	return at;
}
static struct kobj_attribute properties = __ATTR_RO(properties);

static struct attribute *node_attrs[] = { &gpu_id.attr, &name.attr, &properties.attr, NULL };
ATTRIBUTE_GROUPS(node);

static void node_release(struct kobject *kobj)
{
	kfree(to_node(kobj));
}

static const struct kobj_type node_type = {
	.release = node_release, .sysfs_ops = &kobj_sysfs_ops, .default_groups = node_groups,
};

/* mem_banks/0/properties; the bank's directory knows its node by its grandparent. */
static ssize_t bank_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct node *n = to_node(kobj->parent->parent);

	if (!readable(n))
		return -EPERM;
	return sysfs_emit(buf, "heap_type %u\nsize_in_bytes %llu\nflags 0\nwidth 8192\nmem_clk_max 1300\n",
			  n->xcp ? 1 : 0, n->xcp ? VRAM_BYTES / n->of : 8ULL << 30);
}
static struct kobj_attribute bank_properties = __ATTR(properties, 0444, bank_show, NULL);

static void node_remove(struct node *n)
{
	if (n->bank) {
		kobject_del(n->bank);
		kobject_put(n->bank);
	}
	if (n->banks) {
		kobject_del(n->banks);
		kobject_put(n->banks);
	}
	kobject_del(&n->kobj); /* waits for readers */
	kobject_put(&n->kobj);
}

static int node_add(struct xcp *xcp, unsigned int index, unsigned int of)
{
	struct node *n;
	int err;

	if (nr_nodes == MAX_NODES)
		return -ENOSPC;
	n = kzalloc(sizeof(*n), GFP_KERNEL);
	if (!n)
		return -ENOMEM;
	n->xcp = xcp;
	n->index = index;
	n->of = of;
	n->minor = xcp ? render_minor(xcp) : 0;
	err = kobject_init_and_add(&n->kobj, (struct kobj_type *)&node_type, nodes_dir, "%u", nr_nodes);
	if (err) {
		kobject_put(&n->kobj);
		return err;
	}
	nodes[nr_nodes++] = n;
	n->banks = kobject_create_and_add("mem_banks", &n->kobj);
	n->bank = n->banks ? kobject_create_and_add("0", n->banks) : NULL;
	return n->bank ? sysfs_create_file(n->bank, &bank_properties.attr) : -ENOMEM;
}

/* kfd_rebuild replaces the topology by that of the current modes. */
int kfd_rebuild(void)
{
	struct gpu *gpu;
	unsigned int i;
	int err;

	while (nr_nodes)
		node_remove(nodes[--nr_nodes]);
	generation++;
	err = node_add(NULL, 0, 1);
	list_for_each_entry(gpu, &gpus, link)
		for (i = 0; !err && i < partitions(gpu, gpu->mode); i++)
			err = node_add(&gpu->xcp[i], i, partitions(gpu, gpu->mode));
	return err;
}

static ssize_t generation_id_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(generation));
}
static struct kobj_attribute generation_id = __ATTR_RO(generation_id);

static ssize_t system_properties_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "platform_oem 0\nplatform_id 0\nplatform_rev 0\n");
}
static struct kobj_attribute system_properties = __ATTR_RO(system_properties);

/* Processes */

bool kfd_busy(struct gpu *gpu)
{
	struct process *p;
	struct gpu *other;

	list_for_each_entry(p, &processes, link)
		if (check_all_gpus || test_bit(gpu->index, p->attached))
			return true;
	list_for_each_entry(other, &gpus, link)
		if (other->switching && (check_all_gpus || other == gpu))
			return true;
	return false;
}

static void teardown(struct work_struct *work)
{
	struct process *p = container_of(to_delayed_work(work), struct process, teardown);

	mutex_lock(&devices);
	list_del(&p->link);
	mutex_unlock(&devices);
	if (p->dir) {
		kobject_del(p->dir);
		kobject_put(p->dir);
	}
	mmu_notifier_put(&p->notifier);
}

static void begin_teardown(struct work_struct *work)
{
	struct process *p = container_of(work, struct process, begin_teardown);
	unsigned int delay = 0;
	struct gpu *gpu;

	mutex_lock(&devices);
	list_for_each_entry(gpu, &gpus, link)
		delay = max_t(unsigned int, delay, fw_read16(gpu, FH_TEARDOWN_MS));
	mutex_unlock(&devices);
	schedule_delayed_work(&p->teardown, msecs_to_jiffies(delay));
}

static void address_space_ends(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	schedule_work(&container_of(notifier, struct process, notifier)->begin_teardown);
}

static void free_process(struct mmu_notifier *notifier)
{
	kfree(container_of(notifier, struct process, notifier));
	module_put(THIS_MODULE);
}

static const struct mmu_notifier_ops notifier_ops = {
	.release = address_space_ends,
	.free_notifier = free_process,
};

static ssize_t vram_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0\n");
}

static int add_vram(struct process *p, const struct xcp *xcp)
{
	struct vram *v = &p->vram[p->nr_vram++];

	snprintf(v->name, sizeof(v->name), "vram_%u", kfd_id(xcp));
	sysfs_attr_init(&v->attr.attr);
	v->attr.attr.name = v->name;
	v->attr.attr.mode = 0444;
	v->attr.show = vram_show;
	return sysfs_create_file(p->dir, &v->attr.attr);
}

/* attach attaches a process to the partitions that it may use. */
static int attach(struct process *p)
{
	struct gpu *gpu;
	unsigned int i;
	int err = 0;

	list_for_each_entry(gpu, &gpus, link)
		for (i = 0; i < partitions(gpu, gpu->mode); i++)
			if (permitted(render_minor(&gpu->xcp[i]))) {
				__set_bit(gpu->index, p->attached);
				if (p->dir)
					err = add_vram(p, &gpu->xcp[i]) ?: err;
			}
	return err;
}

/* locked: a GPU that the process may use, or with the older check any GPU, is being switched. */
static bool locked(void)
{
	struct gpu *gpu;
	unsigned int i;

	list_for_each_entry(gpu, &gpus, link)
		for (i = 0; gpu->switching && i < partitions(gpu, gpu->mode); i++)
			if (check_all_gpus || permitted(render_minor(&gpu->xcp[i])))
				return true;
	return false;
}

/* A process object has a reference to the module of its own, as in the driver. */
static int new_process(void)
{
	struct process *p = kzalloc(sizeof(*p), GFP_KERNEL);
	char dir[16];
	int err;

	if (!p)
		return -ENOMEM;
	p->pid = task_tgid_nr(current);
	p->notifier.ops = &notifier_ops;
	INIT_WORK(&p->begin_teardown, begin_teardown);
	INIT_DELAYED_WORK(&p->teardown, teardown);
	err = mmu_notifier_register(&p->notifier, current->mm);
	if (err) {
		kfree(p);
		return err;
	}
	__module_get(THIS_MODULE);
	snprintf(dir, sizeof(dir), "%d", p->pid);
	p->dir = kobject_create_and_add(dir, proc_dir);
	if (attach(p) || !p->dir)
		pr_warn("amdgpu: process %d is not in sysfs\n", p->pid);
	list_add_tail(&p->link, &processes);
	return 0;
}

static struct process *find_process(struct mm_struct *mm)
{
	struct process *p;

	list_for_each_entry(p, &processes, link)
		if (p->notifier.mm == mm)
			return p;
	return NULL;
}

static int kfd_open(struct inode *inode, struct file *file)
{
	int err = 0;

	mutex_lock(&devices);
	if (locked())
		err = -EINVAL; /* kfd_create_process */
	else if (!find_process(current->mm))
		err = new_process();
	mutex_unlock(&devices);
	return err;
}

static const struct file_operations kfd_fops = {
	.owner = THIS_MODULE,
	.open = kfd_open,
	.llseek = noop_llseek,
};

int kfd_init(void)
{
	int err;

	major = register_chrdev(0, "kfd", &kfd_fops);
	if (major < 0)
		return major;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	kfd_class = class_create("kfd");
#else
	kfd_class = class_create(THIS_MODULE, "kfd");
#endif
	if (IS_ERR(kfd_class)) {
		err = PTR_ERR(kfd_class);
		goto chrdev;
	}
	kfd_device = device_create(kfd_class, NULL, MKDEV(major, 0), NULL, "kfd");
	if (IS_ERR(kfd_device)) {
		err = PTR_ERR(kfd_device);
		goto class;
	}
	err = -ENOMEM;
	topology_dir = kobject_create_and_add("topology", &kfd_device->kobj);
	nodes_dir = topology_dir ? kobject_create_and_add("nodes", topology_dir) : NULL;
	proc_dir = kobject_create_and_add("proc", &kfd_device->kobj);
	if (!nodes_dir || !proc_dir)
		goto dirs;
	err = sysfs_create_file(topology_dir, &generation_id.attr) ?:
	      sysfs_create_file(topology_dir, &system_properties.attr) ?:
	      kfd_rebuild();
	if (err)
		goto dirs;
	return 0;
dirs:
	while (nr_nodes)
		node_remove(nodes[--nr_nodes]);
	kobject_put(proc_dir);
	kobject_put(nodes_dir);
	kobject_put(topology_dir);
	device_destroy(kfd_class, MKDEV(major, 0));
class:
	class_destroy(kfd_class);
chrdev:
	unregister_chrdev(major, "kfd");
	return err;
}

/* Every process object held a reference to the module, so none is left. */
void kfd_exit(void)
{
	while (nr_nodes)
		node_remove(nodes[--nr_nodes]);
	kobject_put(proc_dir);
	kobject_put(nodes_dir);
	kobject_put(topology_dir);
	device_destroy(kfd_class, MKDEV(major, 0));
	class_destroy(kfd_class);
	unregister_chrdev(major, "kfd");
	mmu_notifier_synchronize();
}
