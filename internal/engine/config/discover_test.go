package config_test

import (
	"testing"

	"dcm/internal/engine/config"
)

func TestDiscoverable(t *testing.T) {
	for name, want := range map[string]bool{
		"vllm.service":                             true,
		"vllm@a.service":                           true,
		"virtual-thing.service":                    true,
		"user@1000.service":                        false,
		"session-3.scope":                          false,
		"docker-0123abc.scope":                     false,
		"docker.service":                           false,
		"gdm.service":                              false,
		"systemd-logind.service":                   false,
		"dbus.service":                             false,
		"sshd@1-10.0.0.1:22-10.0.0.2:4000.service": false,
		"ssh@0.service":                            false,
		"sshd-session.service":                     false,
		"NetworkManager.service":                   false,
		"wpa_supplicant@wlan0.service":             false,
		"lxd.service":                              false,
		"snap.lxd.daemon.service":                  false,
		"snap.docker.dockerd.service":              false,
		"snap.ollama.server.service":               true,
		"incus.service":                            false,
		"xrdp.service":                             false,
		"xrdp-sesman.service":                      false,
		"dbus-org.freedesktop.login1.service":      false,
		"dbus-broker.service":                      false,
		"serial-getty@ttyS0.service":               false,
		"getty@tty1.service":                       false,
		"cockpit.service":                          false,
		"docker@second.service":                    false,
		"podman-restart.service":                   false,
		"slurmctld.service":                        false,
		"sshfs-mounter.service":                    true,
		"dockerless.service":                       true,
		"networkmetrics.service":                   true,
		"dcm.service":                              false,
		"dcm-apply.service":                        false,
		"vllm":                                     false,
		"vllm.socket":                              false,
		"":                                         false,
		".service":                                 false,
		"a b.service":                              false,
	} {
		if got := config.Discoverable(name); got != want {
			t.Errorf("Discoverable(%q) = %t", name, got)
		}
	}
}

func TestLists(t *testing.T) {
	clients := []string{"gpuagent.service", "vllm@.service", "one@a.service"}
	for unit, want := range map[string]bool{
		"gpuagent.service": true, "vllm@x.service": true, "one@a.service": true,
		"one@b.service": false, "vllm.service": false, "": false,
	} {
		if got := config.Lists(clients, unit); got != want {
			t.Errorf("Lists(%q) = %t", unit, got)
		}
	}
}
