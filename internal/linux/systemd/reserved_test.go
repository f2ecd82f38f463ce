package systemd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDropins_Reservations(t *testing.T) {
	const (
		client = "[Unit]|After=dcm-apply.service|PartOf=dcm-apply.service"
		behind = "|After=dcm-reserve.service dcm-guard.service"
		closed = "|DevicePolicy=closed|DeviceAllow=|DeviceAllow=/dev/kfd rwm"
		own    = "|[Service]|Slice=dcm-"
	)
	got := Order{
		Clients: []string{"a.service", "gpuagent.service"}, Require: true,
		Reserved: []Reserved{
			{Unit: "a.service", Name: "a", Count: 2},
			{Unit: "b@1.service", Name: "b-1", Count: 1, Exclusive: true, Changed: true},
			{Unit: "broken.service", Name: "broken"},
			{Unit: "n@.service", Name: "n", Count: 1, Share: 3},
			{Unit: "below.service", Name: "below", Count: 1, Slice: Setting{"dcm-ml.slice", "/x:1"}},
			{Unit: "top.service", Name: "top", Count: 1, Slice: Setting{"dcm.slice", "/x:1"}},
			{Unit: "own.service", Name: "own", Count: 1, Slice: Setting{"ml.slice", "/x:1"}},
			{Unit: "made.service", Name: "made", Count: 1, CompanionLinks: 1, Maker: "dcm-make@2g.20gb_made.service.service"},
			{Unit: "each@.service", Name: "each", Count: 1, CompanionLinks: 1, Maker: "dcm-make@2g.20gb_%n.service"},
		},
		Released:  []string{"gone.service", "gpuagent.service"},
		Observers: []string{"exporter.service", "gpuagent.service"},
		Watching:  []string{"exporter.service", `x\x2dy.service`},
		Guarded:   true, HolderSlices: []string{"dcm-b:1.slice", "dcm-slurm.slice"},
	}.Dropins()
	want := map[string]string{
		"gpuagent.service.d/50-dcm.conf": client + "|Requires=dcm-apply.service|After=dcm-guard.service|[Unit]|After=dcm-reserve.service|PartOf=dcm-reserve.service|[Service]|Slice=system-dcm.slice",
		"gone.service.d/50-dcm.conf":     "[Unit]|After=dcm-reserve.service|PartOf=dcm-reserve.service",
		"a.service.d/50-dcm.conf": client + "|Requires=dcm-apply.service" + behind +
			"|AssertPathExists=/dev/dcm/a/render0|AssertPathExists=/dev/dcm/a/render1" +
			own + "a.slice" + closed + "|DeviceAllow=/dev/dcm/a/render0 rwm|DeviceAllow=/dev/dcm/a/render1 rwm",
		"b@1.service.d/50-dcm.conf": client + behind + "|PartOf=dcm-reserve.service|Wants=dcm-guard.service" +
			"|AssertPathExists=/dev/dcm/b-1/render0" + own + "b:1.slice" + closed + "|DeviceAllow=/dev/dcm/b-1/render0 rwm" +
			"|ExecStopPost=-+/usr/libexec/dcm/dcm-service clean-after %n",
		"broken.service.d/50-dcm.conf": client + behind + "|AssertPathExists=/dev/dcm/broken/render0" + own + "broken.slice" + closed + "|DeviceAllow=/dev/dcm/broken/render0 rwm",
		"n@.service.d/50-dcm.conf": client + behind + "|Wants=dcm-guard.service|AssertPathExists=/dev/dcm/n/render0" + own + "n.slice" + closed +
			"|DeviceAllow=/dev/dcm/n/render0 rwm|ExecStartPre=+/usr/libexec/dcm/dcm-guard enter n %n",
		"below.service.d/50-dcm.conf": client + behind + "|AssertPathExists=/dev/dcm/below/render0|[Service]|DevicePolicy=closed|DeviceAllow=|DeviceAllow=/dev/kfd rwm" +
			"|DeviceAllow=/dev/dcm/below/render0 rwm",
		"top.service.d/50-dcm.conf": client + behind + "|AssertPathExists=/dev/dcm/top/render0" + own + "top.slice" + closed + "|DeviceAllow=/dev/dcm/top/render0 rwm",
		"own.service.d/50-dcm.conf": client + behind + "|AssertPathExists=/run/dcm/refused-for-its-own-Slice|AssertPathExists=/dev/dcm/own/render0" +
			"|[Service]|DevicePolicy=closed|DeviceAllow=|DeviceAllow=/dev/kfd rwm|DeviceAllow=/dev/dcm/own/render0 rwm",
		"made.service.d/50-dcm.conf": client + behind + "|Requires=dcm-make@2g.20gb_made.service.service|After=dcm-make@2g.20gb_made.service.service|AssertPathExists=/dev/dcm/made/render0" +
			own + "made.slice" + closed + "|DeviceAllow=/dev/dcm/made/render0 rwm|DeviceAllow=/dev/dcm/made.beside/render0 rwm",
		"each@.service.d/50-dcm.conf": client + behind + "|Requires=dcm-make@2g.20gb_%n.service|After=dcm-make@2g.20gb_%n.service|AssertPathExists=/dev/dcm/each:%i/render0" +
			own + "each.slice" + closed + "|DeviceAllow=/dev/dcm/each:%i/render0 rwm|DeviceAllow=/dev/dcm/each:%i.beside/render0 rwm",
		"exporter.service.d/50-dcm.conf":    "[Service]|Slice=system-dcm.slice",
		"dcm-apply.service.d/50-dcm.conf":   "[Unit]|Wants=dcm-guard.service",
		"dcm-reserve.service.d/50-dcm.conf": "[Unit]|Wants=dcm-guard.service",
		"dcm-guard.service.d/50-dcm.conf": "[Unit]|Wants=dcm-b:1.slice dcm-slurm.slice|After=dcm-b:1.slice dcm-slurm.slice|[Service]" +
			`|Environment="DCM_OBSERVERS=exporter.service x\\x2dy.service"`,
		"dcm.slice.d/50-dcm.conf": "[Unit]|Wants=dcm-guard.service|OnSuccess=dcm-guard.service",
	}
	for file, text := range got {
		got[file] = directives(text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("drop-ins (-want +got):\n%s", diff)
	}
}
