/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The firmware registers of a simulated GPU, in its PCI configuration space.
 *
 * fakehive provides them, amdgpu reads and writes them, and a test sets faults through
 * the PCI device's sysfs file "config". They keep their values while amdgpu is unloaded.
 */
#ifndef FAKEHIVE_H
#define FAKEHIVE_H

#define FH_NPS		0x40	/* u8: memory mode in effect: 1, 2, 4, 8 */
#define FH_NPS_REQUEST	0x41	/* u8: memory mode requested for the next load, 0 if none */
#define FH_XCCS		0x42	/* u8: number of XCCs */
#define FH_HIVE		0x43	/* u8: number of GPUs in the XGMI hive; 0: no hive */
#define FH_FAIL_COMPUTE	0x44	/* u8: errno of the next compute mode write, see FH_EVERY */
#define FH_FAIL_MEMORY	0x45	/* u8: errno of the next memory mode write */
#define FH_FAIL_PROBE	0x46	/* u8: errno of the next probe */
#define FH_OFF_BUS	0x47	/* u8: 1: configuration reads return ~0 below FH_NPS */
#define FH_SWITCH_MS	0x48	/* u16: duration of a compute mode switch */
#define FH_PROBE_MS	0x4a	/* u16: duration of a probe */
#define FH_TEARDOWN_MS	0x4c	/* u16: time from the end of a process to the end of its KFD process */
#define FH_INDEX	0x4e	/* u8: number of the GPU, from 0 */

#define FH_EVERY	0x80	/* in a fault register: every call fails, not only the next */

#endif
