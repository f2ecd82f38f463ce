package slurm

import (
	"context"
	"testing"
)

func TestController_Unconfined(t *testing.T) {
	for _, tt := range []struct{ name, config, want string }{
		{"no plugin", "GresTypes               = gpu\nTaskPlugin              = (null)\nTaskPluginParam         = (null type)\n", "(null)"},
		{"another plugin", "GresTypes               = gpu,craynetwork\nTaskPlugin              = task/affinity\n", "task/affinity"},
		{"confined", "GresTypes               = gpu\nTaskPlugin              = task/cgroup,task/affinity\n", ""},
		{"no GPUs", "GresTypes               = (null)\nTaskPlugin              = (null)\n", ""},
		{"another text", "Configuration data as of 2026-11-29T09:00:00\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Controller{Run: func(context.Context, ...string) (string, error) { return tt.config, nil }}
			if got, err := c.Unconfined(t.Context()); got != tt.want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
