#!/bin/bash
# Guess:     a number of bytes is the same in a chart, whether it comes from values.yaml or from --set.
# Behaviour: the number of values.yaml becomes a floating-point number. From a million on it may be printed with an
#            exponent: the 192 GiB of a GPU are 2.06158430208e+11. --set prints it as it was given.
#            The vendor 0x1002 is the other way round: values.yaml makes it 4098, --set keeps its text.
# Versions seen: helm.sh/helm/v3 v3.22.0
# Met by:    charts that pass the memory of a GPU to a program. The chart works in each trial with --set.
# Fails:     if the output is not that at the end of this script, which was seen with this version.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module helm.sh/helm/v3/pkg/engine@v3.22.0
cat >"$dir/main.go" <<'END'
package main

import (
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
)

func main() {
	file, err := chartutil.ReadValues([]byte("memory: 206158430208\nmegabytes: 196608\nvendor: 0x1002\n"))
	render("values.yaml", file, err)
	set, err := strvals.Parse("memory=206158430208,megabytes=196608,vendor=0x1002")
	render("--set", set, err)
}

func render(from string, values map[string]any, err error) {
	text := "{{ .Values.memory }} {{ .Values.megabytes }} {{ .Values.vendor }}"
	template := &chart.File{Name: "template", Data: []byte(text)}
	parts := &chart.Chart{Metadata: &chart.Metadata{Name: "chart"}, Templates: []*chart.File{template}}
	rendered, failed := engine.Render(parts, chartutil.Values{"Values": values})
	fmt.Println(from, rendered["chart/template"], err, failed)
}
END
expect <<'END' || exit 1
values.yaml 2.06158430208e+11 196608 4098 <nil> <nil>
--set 206158430208 196608 0x1002 <nil> <nil>
END
