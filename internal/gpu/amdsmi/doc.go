// Package amdsmi reads and sets partition modes through AMD's libamd_smi.so.
//
// It binds the C library with dlopen and no cgo, and it is the one place of dcm
// that calls C. It answers one [Request] with one [Reply] through [Serve]; only
// cmd/dcm-smi imports it, because a C library can abort, hang and leak: that
// program is run with a deadline and then gone.
//
// The library numbers the partition modes differently in its versions, and a
// wrong number silently sets another mode. So numbers are taken from a table by
// the version the library tells of itself and by the symbols it has; where the
// table has no row, or version and symbols contradict each other, setting is
// refused. Reading needs no number: the library gives modes as text in every
// version.
//
// It does not know what a profile is, nor sysfs, nor whether a change is wise.
//
// # The request and the answer
//
// A request is one JSON object:
//
//	do       "version", "inventory", "set-compute" or "set-memory"
//	library  path of the library; absent: the usual places, see [Candidates]
//	gpu      PCI address, "0000:0c:00.0"; for a set
//	mode     "SPX", "DPX", "TPX", "QPX", "CPX", "NPS1", "NPS2", "NPS4", "NPS8"; for a set
//
// An answer is one JSON object on one line:
//
//	library      file that was loaded
//	version      what the library tells of itself, "27.1.0"
//	compute      {"known": true} or {"known": false, "why": "…"}: whether compute modes can be set
//	memory       the same for memory modes
//	gpus         for "inventory": address, name, vendor, device, serial, uuid,
//	             compute, memory, driver, driverVersion, notes (what could not be read, and why)
//	set          for a set: gpu, mode, number (what was passed to the library),
//	             function, before and after (modes read through the library as text)
//	error        {"kind": "…", "text": "…", "status": N}; absent when all went well
//
// The kinds of error are the [Kind] constants. What was learnt before the error
// is in the answer too.
package amdsmi
