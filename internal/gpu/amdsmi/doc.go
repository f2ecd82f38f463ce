// Package amdsmi reads and sets partition modes through AMD's libamd_smi.so.
//
// It loads the C library through dlopen, without cgo. It executes one [Request] through
// [Serve] and returns one [Reply]. Only cmd/dcm-smi imports it, because the library can abort,
// hang and leak, and that program runs with a timeout and ends after one request.
//
// The versions of the library number the partition modes differently, and a wrong number sets
// another mode without an error. So the numbers come from a table, by the version that the
// library reports and by its symbols. If the table has no row, or version and symbols
// contradict each other, setting is refused. Reading needs no number, since all versions
// return modes as text.
//
// It knows neither profiles nor sysfs, nor whether a change is sensible.
//
// # Request and reply
//
// A request is one JSON object:
//
//	do       "version", "inventory", "set-compute" or "set-memory"
//	library  path of the library; absent: the usual places, see [Candidates]
//	gpu      PCI address, "0000:0c:00.0"; for a set
//	mode     "SPX", "DPX", "TPX", "QPX", "CPX", "NPS1", "NPS2", "NPS4", "NPS8"; for a set
//
// A reply is one JSON object on one line:
//
//	library      path of the loaded library
//	version      version that the library reports, "27.1.0"
//	compute      {"known": true} or {"known": false, "why": "…"}: whether compute modes can be set
//	memory       the same for memory modes
//	gpus         for "inventory": address, name, vendor, device, serial, uuid,
//	             compute, memory, driver, driverVersion, notes (facts that could not be read, and why)
//	set          for a set: gpu, mode, number (passed to the library),
//	             function, before and after (modes read through the library)
//	error        {"kind": "…", "text": "…", "status": N}; absent after success
//
// The kinds of error are the [Kind] constants. A reply includes what was read before the
// error.
package amdsmi
