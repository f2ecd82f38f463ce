/*
 * A stand-in for libdrm.so.2: as much of it as libamd_smi of ROCm 6.1.2 loads,
 * for a node whose render nodes are plain files. It tells a render node's PCI
 * address from the node's name and sysfs.
 */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct version {
	int major, minor, patch;
	int name_len;
	char *name;
	int date_len;
	char *date;
	int desc_len;
	char *desc;
};

struct pci_bus {
	uint16_t domain;
	uint8_t bus, dev, func;
};

struct pci_device {
	uint16_t vendor, device, subvendor, subdevice;
	uint8_t revision;
};

struct device {
	char **nodes;
	int available_nodes, bustype;
	struct pci_bus *bus;
	struct pci_device *pci;
	struct device *alloc;
};

struct version *drmGetVersion(int fd)
{
	struct version *v = calloc(1, sizeof *v);
	(void)fd;
	v->major = 3;
	v->minor = 61;
	v->name = strdup("amdgpu");
	v->name_len = 6;
	v->date = strdup("20150101");
	v->date_len = 8;
	v->desc = strdup("AMD GPU");
	v->desc_len = 7;
	return v;
}

void drmFreeVersion(struct version *v)
{
	if (!v)
		return;
	free(v->name);
	free(v->date);
	free(v->desc);
	free(v);
}

int drmGetDevice(int fd, struct device **out)
{
	char link[64], node[PATH_MAX], path[2 * PATH_MAX], target[PATH_MAX];
	unsigned domain, bus, dev, func;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, node, sizeof node - 1);
	if (n < 0)
		return -errno;
	node[n] = 0;
	snprintf(path, sizeof path, "/sys/class/drm/%s/device", strrchr(node, '/') + 1);
	if (!realpath(path, target))
		return -errno;
	if (sscanf(strrchr(target, '/') + 1, "%x:%x:%x.%x", &domain, &bus, &dev, &func) != 4)
		return -ENODEV;
	struct device *d = calloc(1, sizeof *d);
	d->alloc = d;
	d->bus = calloc(1, sizeof *d->bus);
	d->pci = calloc(1, sizeof *d->pci);
	*d->bus = (struct pci_bus){domain, bus, dev, func};
	*d->pci = (struct pci_device){.vendor = 0x1002, .device = 0x74a1, .revision = 0};
	*out = d;
	return 0;
}

void drmFreeDevice(struct device **d)
{
	if (!d || !*d || (*d)->alloc != *d)
		return;
	free((*d)->bus);
	free((*d)->pci);
	free(*d);
	*d = NULL;
}

int drmCommandWrite(int fd, unsigned long index, void *data, unsigned long size)
{
	(void)fd, (void)index, (void)data, (void)size;
	return -EINVAL;
}
