package vm_test

// kexecBoot: after kexec(8) dcm applies the profile before the clients start, as after other boots.
func kexecBoot(m machine) {
	m.use("cpx-nps4")
	m.run(`kexec --load /boot/kernel --initrd=/boot/initrd --command-line="$(cat /proc/cmdline) test.kexec"`)
	m.must(m.Kexec)
	m.expect("grep --count --word-regexp test.kexec /proc/cmdline", "1")
	m.expect(modes, split)
	m.expect(allClients, allActive)
	for _, client := range []string{"amd-metrics-exporter", "gpuagent"} {
		m.after(client, "dcm-apply")
	}
	m.run("dcm verify cpx-nps4")
}

// eightGPUsBoot: eight GPUs in CPX have 64 partitions after a boot, and the clients start after
// dcm-apply.
func eightGPUsBoot(m machine) {
	m.use("cpx-nps4")
	m.expect(modes, "8 CPX 8 NPS4")
	m.must(m.Reboot)
	m.expect(modes, "8 CPX 8 NPS4")
	m.expect("cd /dev/dri && ls -d card* renderD* | sed 's/[0-9]*//g' | sort | uniq -c | xargs", "64 card 64 renderD")
	m.expect("dcm partitions --json | grep -c render_node", "64")
	m.expect(allClients, allActive)
	for _, client := range []string{"amd-metrics-exporter", "gpuagent"} {
		m.after(client, "dcm-apply")
	}
	m.run("dcm verify cpx-nps4")
}
