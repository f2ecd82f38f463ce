package amdgpu

import "testing"

func TestPrivateTmp(t *testing.T) {
	const (
		root    = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
		host    = "40 22 0:33 / /tmp rw,nosuid,nodev shared:2 - tmpfs tmpfs rw\n"
		private = "300 22 254:0 /tmp/systemd-private-0123-dcm-apply.service-Ab1/tmp /tmp rw shared:1 - ext4 /dev/vda rw\n"
		onTmpfs = "300 22 0:33 /systemd-private-0123-dcm-apply.service-Ab1/tmp /tmp rw shared:2 - tmpfs tmpfs rw\n"
		other   = "301 22 254:0 /tmp/systemd-private-0123-dcm-apply.service-Ab1/tmp /var/tmp rw - ext4 /dev/vda rw\n"
	)
	for _, c := range []struct {
		name, mounts string
		want         bool
	}{
		{"no mount", root, false},
		{"the host's", root + host, false},
		{"a service's", root + private, true},
		{"a service's on a tmpfs", root + host + onTmpfs, true},
		{"another mount below it", root + private + host, false},
		{"of /var/tmp only", root + other, false},
		{"nothing", "", false},
		{"garbage", "a b c\n\n", false},
	} {
		if got := privateTmp(c.mounts); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
