package query

import (
	"testing"

	"dcm/internal/exitcode"
	"dcm/internal/frontends/status"
)

func TestOneGPU(t *testing.T) {
	amd := status.Account{
		GPUs: []status.GPU{{Index: 0, Address: "0000:05:00.0"}, {Index: 2, Address: "0001:65:00.0"}, {Index: -1, Address: "0000:01:00.0", Why: "no partitions"}},
	}
	amd.Expected.Lost = []status.Lost{{Index: 1, Address: "0000:26:00.0"}}
	both := status.Account{GPUs: []status.GPU{{Index: 0, Address: "0000:05:00.0"}, {Index: 0, Address: "0000:df:00.0"}}}
	for _, test := range []struct {
		account    status.Account
		name, want string
		err        string
	}{
		{amd, "0", "0000:05:00.0", ""},
		{amd, "1", "0000:26:00.0", ""},
		{amd, "0000:05:00.0", "0000:05:00.0", ""},
		{amd, "05:00.0", "0000:05:00.0", ""},
		{amd, "0001:65:00.0", "0001:65:00.0", ""},
		{amd, "3", "", "GPU 3: no such GPU: this host has 3 GPUs, numbers 0 to 2\nhint: 'dcm gpus' lists their numbers and addresses"},
		{amd, "-1", "", "GPU -1: no such GPU: this host has 3 GPUs, numbers 0 to 2\nhint: 'dcm gpus' lists their numbers and addresses"},
		{both, "0", "", "GPU 0: several GPUs have this number: 0000:05:00.0, 0000:df:00.0\nhint: give the address"},
		{both, "0000:DF:00.0", "0000:df:00.0", ""},
		{status.Account{}, "0", "", "GPU 0: no such GPU: this host has no partitionable GPU; see 'dcm gpus'"},
	} {
		got, err := oneGPU(test.account, []string{test.name})
		if got != test.want || (err == nil) != (test.err == "") || err != nil && (err.Error() != test.err || exitcode.Code(err) != exitcode.Usage) {
			t.Errorf("%s: got %q, %v, want %q, %s", test.name, got, err, test.want, test.err)
		}
	}
	if got, err := oneGPU(amd, nil); got != "" || err != nil {
		t.Errorf("without an argument: %q, %v", got, err)
	}
}
