// SPDX-License-Identifier: GPL-2.0
/*
 * PCI functions that consist of configuration space only.
 *
 * Each GPU is the only device of a root bus of its own, so the PCI core enumerates it,
 * udev loads its driver by its modalias, and remove, rescan, bind and unbind work as for
 * hardware. There are no BARs, capabilities or interrupts.
 *
 * The module cannot be unloaded: "modprobe -r amdgpu" must never remove it as an unused
 * dependency.
 */
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include <asm/pci.h>

#include "fakehive.h"

#define MAX_GPUS 8
#define CONFIG_SIZE 256

static unsigned int gpus = 2;
module_param(gpus, uint, 0444);
MODULE_PARM_DESC(gpus, "number of GPUs, 1 to 8");

static unsigned int device = 0x74a1;
module_param(device, uint, 0444);
MODULE_PARM_DESC(device, "PCI device id (default: MI300X)");

static unsigned int nps = 1;
module_param(nps, uint, 0444);
MODULE_PARM_DESC(nps, "memory mode at power-on");

static unsigned int hive = 1;
module_param(hive, uint, 0444);
MODULE_PARM_DESC(hive, "0: the GPUs are not connected by XGMI");

static unsigned int nvidia;
module_param(nvidia, uint, 0444);
MODULE_PARM_DESC(nvidia, "how many of the GPUs, the last ones, are NVIDIA H100");

/* The bus numbers of an eight-GPU MI300X node. */
static const u8 buses[MAX_GPUS] = { 0x05, 0x26, 0x46, 0x65, 0x85, 0xa6, 0xc6, 0xe5 };

struct board {
	struct pci_sysdata sysdata; /* x86 finds it through bus->sysdata */
	struct resource busn;
	raw_spinlock_t lock;
	u8 config[CONFIG_SIZE];
};

static struct board *boards[MAX_GPUS];

static struct board *board_of(struct pci_bus *bus)
{
	return container_of(bus->sysdata, struct board, sysdata);
}

static int config_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	struct board *b = board_of(bus);
	unsigned long flags;
	bool absent;

	*value = ~0;
	if (devfn != 0 || where + size > CONFIG_SIZE)
		return PCIBIOS_DEVICE_NOT_FOUND;
	raw_spin_lock_irqsave(&b->lock, flags);
	absent = b->config[FH_OFF_BUS] && where < FH_NPS;
	if (!absent) {
		*value = 0;
		memcpy(value, b->config + where, size);
	}
	raw_spin_unlock_irqrestore(&b->lock, flags);
	return absent ? PCIBIOS_DEVICE_NOT_FOUND : PCIBIOS_SUCCESSFUL;
}

static bool writable(int where)
{
	return where == PCI_COMMAND || where == PCI_COMMAND + 1 ||
	       where == PCI_CACHE_LINE_SIZE || where == PCI_LATENCY_TIMER ||
	       where == PCI_INTERRUPT_LINE || where >= FH_NPS;
}

static int config_write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	struct board *b = board_of(bus);
	unsigned long flags;
	int i;

	if (devfn != 0 || where + size > CONFIG_SIZE)
		return PCIBIOS_DEVICE_NOT_FOUND;
	raw_spin_lock_irqsave(&b->lock, flags);
	for (i = 0; i < size; i++)
		if (writable(where + i))
			b->config[where + i] = value >> (8 * i);
	raw_spin_unlock_irqrestore(&b->lock, flags);
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops ops = { .read = config_read, .write = config_write };

static void put16(struct board *b, int where, u16 value)
{
	b->config[where] = value;
	b->config[where + 1] = value >> 8;
}

static void identify(struct board *b, u16 vendor, u16 id, u16 subsystem, u16 class)
{
	put16(b, PCI_VENDOR_ID, vendor);
	put16(b, PCI_DEVICE_ID, id);
	put16(b, PCI_CLASS_DEVICE, class);
	put16(b, PCI_SUBSYSTEM_VENDOR_ID, vendor);
	put16(b, PCI_SUBSYSTEM_ID, subsystem);
}

static struct board *new_board(unsigned int index)
{
	struct board *b = kzalloc(sizeof(*b), GFP_KERNEL);

	if (!b)
		return NULL;
	raw_spin_lock_init(&b->lock);
	b->sysdata.node = NUMA_NO_NODE;
	b->busn = (struct resource){
		.name = "fakehive bus", .start = buses[index], .end = buses[index], .flags = IORESOURCE_BUS,
	};
	if (index + nvidia >= gpus)
		identify(b, PCI_VENDOR_ID_NVIDIA, 0x2330, 0x16c1, PCI_CLASS_DISPLAY_3D);
	else
		identify(b, PCI_VENDOR_ID_ATI, device, device, 0x1200); /* processing accelerator */
	b->config[FH_NPS] = nps;
	b->config[FH_XCCS] = device == 0x74a0 ? 6 : 8;
	b->config[FH_HIVE] = hive ? gpus : 0;
	b->config[FH_INDEX] = index;
	return b;
}

static int add_bus(struct board *b)
{
	LIST_HEAD(resources);
	struct pci_bus *bus;

	pci_add_resource(&resources, &b->busn);
	pci_lock_rescan_remove();
	bus = pci_create_root_bus(NULL, b->busn.start, &ops, &b->sysdata, &resources);
	if (!bus) {
		pci_unlock_rescan_remove();
		pci_free_resource_list(&resources);
		return -ENOMEM;
	}
	pci_scan_child_bus(bus);
	pci_bus_add_devices(bus);
	pci_unlock_rescan_remove();
	return 0;
}

static int __init fakehive_init(void)
{
	unsigned int i;
	int err;

	if (gpus < 1 || gpus > MAX_GPUS)
		return -EINVAL;
	for (i = 0; i < gpus; i++) {
		boards[i] = new_board(i);
		if (!boards[i]) {
			while (i--)
				kfree(boards[i]);
			return -ENOMEM;
		}
	}
	/* From here on the PCI core calls this module, so it must stay loaded. */
	for (i = 0; i < gpus; i++) {
		err = add_bus(boards[i]);
		if (err)
			pr_err("fakehive: GPU %u: cannot add the bus: %d\n", i, err);
	}
	return 0;
}
module_init(fakehive_init);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Simulated GPUs of an XGMI hive: PCI configuration space only");
