package foreign_test

// doors are the functions of what runs on a host that read something from outside, with
// the reason why no text of others gets any further unescaped. A new one is listed
// here with a reason that a reviewer can check, which most often is [escapes].
func doors() map[string]string {
	const (
		own      = "a file, or an answer, that dcm has written itself, of escaped text"
		numbers  = "takes names that are numbers, and no others"
		matched  = "takes names of a fixed form, and no others"
		compared = "compares, and keeps nothing"
		writes   = "opens a file to write it, to lock it or to sync it"
		callers  = "what its caller gives it on the command line, told to that caller"
		packed   = "goes into an archive as it is, to nobody's terminal"
	)
	return map[string]string{
		// reservations and leases
		"cli.guardCmd":      callers,
		"dcm-guard.main":    callers,
		"lease.Links.Read":  escapes,
		"lease.Links.of":    escapes,
		"lease.Links.clean": compared,
		"lease.Links.write": compared,
		// sysfs and procfs
		"attr.read":                "the bytes for those who look for one form in them; Read, which all others use, escapes",
		"attr.Names":               "the names for those who look for ones of a form",
		"opened.command":           escapes,
		"amdgpu.Node.cards":        matched,
		"attr.open":                "opens for the readers and the writer beside it",
		"attr.Link":                escapes,
		"gpu.scan":                 "takes names that are PCI addresses, and no others",
		"gpu.Function.cards":       matched,
		"amdgpu.Node.ModeFiles":    "paths to watch: PCI addresses, below a directory of the kernel's",
		"amdgpu.Node.deviceNodes":  matched,
		"amdgpu.Node.topology":     numbers,
		"amdgpu.Node.measure":      "takes numbers out of a table",
		"amdgpu.Node.partTable":    "takes numbers out of a table",
		"amdgpu.Node.memoryOf":     numbers,
		"amdgpu.Node.useCount":     escapes,
		"amdgpu.isolations":        compared,
		"opened.prober.anonymous":  compared,
		"opened.prober.files":      numbers,
		"opened.prober.mappings":   "takes device numbers and inodes",
		"host.Host.BootID":         escapes,
		"host.Host.kernel":         escapes,
		"gpu.Node.Minors":          matched,
		"host.Host.about":          escapes,
		"host.Host.Who":            escapes,
		"host.userName":            escapes,
		"host.Host.leases":         escapes,
		"host.first":               numbers,
		"service.premises.tenants": escapes,
		"service.premises.cgroup":  "a path to read by, which is not told",
		"service.premises.StartOf": "takes a number",
		"service.premises.started": compared,
		"lease.attribute":          escapes,
		"ample.now":                "takes a number",
		"watch.openUevents":        "opens for receive",
		"watch.receive":            "compared with what is of interest, and not told",
		"watch.openWrites":         "is told that something was written, not what",
		"watch.scope.directory":    escapes,
		"watch.scope.resolve":      "paths to watch; what is told of one is escaped in watch.scope.watch",
		"guard.Guard.begin":        "opens a directory of cgroups, and reads nothing",

		// other programs
		"amdgpu.Node.module": escapes,
		"ask.runIn":          "its answer is read by amdgpu.parseSMIReply or nvml.ParseReply and its complaint by ask.firstLine, which escape",
		"cli.output":         escapes,
		"cli.fromDaemon":     own,
		"cli.askedUsage":     own,

		// the bus
		"bus.permitted":         escapes,
		"bus.processOf":         "takes a number",
		"bus.callers.user":      "takes a number",
		"bus.Service.claim":     escapes,
		"bus.groupsOf":          "takes numbers",
		"bus.Service.presence":  "takes a boolean",
		"bus.tree.LookupObject": "stores that somebody has asked",
		"bus.Client.Account":    own,
		"bus.Client.Usage":      own,
		"bus.Client.Acquire":    own,
		"bus.Client.Apply":      own,
		"bus.Client.Use":        own,
		"bus.Client.Manager":    own,
		"systemd.Conn.once":     "states and names of units, which systemd has checked; escapes its errors",
		"systemd.Conn.property": escapes,
		"systemd.ear.removed":   compared,
		"systemd.ear.unloaded":  compared,
		"systemd.link.owned":    "takes a boolean",

		// configuration
		"config.names":          "names become a foreign.Name in config.reader.dropins",
		"config.reader.text":    escapes,
		"config.reader.reached": escapes,
		"config.Load":           "the kernel command line, of which the value of one parameter is quoted, see config.clip",
		"config.LastGood":       escapes,
		"config.HandOn":         compared,
		"config.parseJSON":      "the words of a configuration, quoted by config.clip wherever they are told",
		"config.Paths.open":     escapes,
		"config.Paths.locked":   writes,
		"config.sweep":          matched,
		"config.syncDir":        writes,

		// dcm's own
		"account.ReadKnown":         own,
		"apply.Await":               writes,
		"apply.Lock":                writes,
		"apply.UnderWay":            writes,
		"atload.read":               compared,
		"cdi.Write":                 compared,
		"history.Read":              own,
		"history.add":               writes,
		"history.crop":              own,
		"history.parse":             own,
		"metrics.within":            "opens directories on the way to where it writes",
		"metrics.list":              matched,
		"metrics.link":              compared,
		"reboot.Read":               own,
		"reboot.Host.Testify":       writes,
		"reboot.Host.boot":          compared,
		"reboot.Host.outlived":      compared,
		"reboot.Host.overlay":       escapes,
		"reboot.Host.device":        "a path that block goes on with",
		"reboot.Host.block":         escapes,
		"reboot.syncDir":            writes,
		"report.read":               own,
		"report.Sweep":              matched,
		"systemd.unitFiles.main":    "a path to read by",
		"systemd.unitFiles.dropins": "paths to read by",
		"systemd.unitFiles.read":    escapes,
		"systemd.Generate":          "opens the generator's own directory",
		"systemd.Stale":             "opens the generator's own directory",
		"systemd.dropins":           escapes,
		"systemd.same":              compared,
		"systemd.remove":            escapes,
		"systemd.record":            writes,
		"journal.sender.send":       writes,
		"journal.sender.large":      writes,

		// the caller's
		"dcm.main":             callers,
		"cli.Stdio":            compared,
		"cli.daemonCmd":        compared,
		"cli.follow":           "the command line, escaped by host.Sign",
		"cli.judging":          callers,
		"cli.readInput":        callers,
		"cli.topping.sensible": "asks whether it is a terminal",
		"cli.topping.run":      "handed on to package top, which takes keys",
		"cli.runWith":          "handed on to the caller's own command",
		"service.Daemon":       "asks for the variables of sd_notify(3), of which none is told",
		"service.Oneshot":      "asks for the variables of sd_notify(3), of which none is told",

		// for support
		"cli.pack":          escapes,
		"cli.configuration": "names become escaped ones in cli.ownFile",
		"cli.ownFile":       escapes,
		"cli.readRegular":   packed,
		"cli.versions":      packed,
	}
}
