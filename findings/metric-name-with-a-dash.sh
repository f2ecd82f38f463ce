#!/bin/bash
# Guess:     client_golang refuses the name gpu-temperature, since a name of a metric has no dash.
# Behaviour: it is registered without an error, and served under two names. A scraper that accepts UTF-8 gets
#            gpu-temperature in quotes, and other scrapers get gpu_temperature.
# Versions seen: github.com/prometheus/client_golang v1.25.0
# Met by:    authors of exporters who misspell a name. curl shows the name that they meant, while a dashboard or an
#            alert with this name finds nothing on a server that accepts UTF-8.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

go_module github.com/prometheus/client_golang@v1.25.0
cat >"$dir/main.go" <<'END'
package main

import (
	"fmt"
	"net/http/httptest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func main() {
	registry := prometheus.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "gpu-temperature", Help: "Degrees."})
	fmt.Println("error:", registry.Register(gauge))
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	for _, accept := range []string{"*/*", "text/plain;version=1.0.0;escaping=allow-utf-8"} {
		request := httptest.NewRequest("GET", "/metrics", nil)
		request.Header.Set("Accept", accept)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		fmt.Printf("Accept: %s\n%s", accept, answer.Body)
	}
}
END
expect <<'END' || exit 1
error: <nil>
Accept: */*
# HELP gpu_temperature Degrees.
# TYPE gpu_temperature gauge
gpu_temperature 0
Accept: text/plain;version=1.0.0;escaping=allow-utf-8
# HELP "gpu-temperature" Degrees.
# TYPE "gpu-temperature" gauge
{"gpu-temperature"} 0
END
