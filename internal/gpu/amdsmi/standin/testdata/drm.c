/*
 * A stand-in for libdrm.so.2 and libdrm_amdgpu.so.1: as much of them as
 * libamd_smi loads, for a node whose render nodes are plain files. What it tells
 * of a render node it takes from sysfs, by the node's name.
 */
#include <errno.h>
#include <fcntl.h>
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
	struct device *self;
};

/* attribute reads a file of the device behind an open render node. */
static int attribute(int fd, const char *name, char *text, size_t size)
{
	char link[64], node[PATH_MAX], path[PATH_MAX];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, node, sizeof node - 1);
	if (n < 0)
		return -errno;
	node[n] = 0;
	snprintf(path, sizeof path, "/sys/class/drm/%.64s/device/%s", strrchr(node, '/') + 1, name);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return -errno;
	n = read(file, text, size - 1);
	close(file);
	text[n > 0 ? n : 0] = 0;
	return n > 0 ? 0 : -EIO;
}

static unsigned number(int fd, const char *name)
{
	char text[64];
	return attribute(fd, name, text, sizeof text) ? 0 : strtoul(text, 0, 16);
}

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
	char uevent[4096];
	unsigned domain, bus, dev, func;
	int err = attribute(fd, "uevent", uevent, sizeof uevent);
	if (err)
		return err;
	char *slot = strstr(uevent, "PCI_SLOT_NAME=");
	if (!slot || sscanf(slot, "PCI_SLOT_NAME=%x:%x:%x.%x", &domain, &bus, &dev, &func) != 4)
		return -ENODEV;
	struct device *d = calloc(1, sizeof *d);
	d->self = d;
	d->bus = calloc(1, sizeof *d->bus);
	d->pci = calloc(1, sizeof *d->pci);
	*d->bus = (struct pci_bus){domain, bus, dev, func};
	*d->pci = (struct pci_device){.vendor = number(fd, "vendor"), .device = number(fd, "device")};
	*out = d;
	return 0;
}

void drmFreeDevice(struct device **d)
{
	if (!d || !*d || (*d)->self != *d)
		return;
	free((*d)->bus);
	free((*d)->pci);
	free(*d);
	*d = NULL;
}

/* The beginning of struct drm_amdgpu_info. */
struct query {
	uint64_t pointer;
	uint32_t size, what;
};

/* Only the device's id is answered: AMDGPU_INFO_DEV_INFO of DRM_AMDGPU_INFO. */
int drmCommandWrite(int fd, unsigned long index, void *data, unsigned long size)
{
	struct query *q = data;
	if (index != 5 || size < sizeof *q || q->what != 0x16 || q->size < sizeof(uint32_t))
		return -EINVAL;
	uint32_t device = number(fd, "device");
	memset((void *)(uintptr_t)q->pointer, 0, q->size);
	memcpy((void *)(uintptr_t)q->pointer, &device, sizeof device);
	return 0;
}

int amdgpu_device_initialize(int fd, uint32_t *major, uint32_t *minor, void **device)
{
	*major = 3;
	*minor = 61;
	*device = (void *)((intptr_t)fd + 1);
	return 0;
}

int amdgpu_device_deinitialize(void *device)
{
	(void)device;
	return 0;
}

const char *amdgpu_get_marketing_name(void *device)
{
	static char name[128];
	if (attribute((int)((intptr_t)device - 1), "product_name", name, sizeof name))
		return 0;
	name[strcspn(name, "\n")] = 0;
	return name;
}
