package query

import (
	"bytes"
	"strings"
	"testing"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
)

// GPUs without a hive are not drawn as if they were in the hive above.
func TestDrawNode_NoHive(t *testing.T) {
	var book []lease.Allocation
	for i, address := range []partition.Address{"0000:05:00.0", "0000:9d:00.0"} {
		book = append(book, lease.Allocation{Part: runstate.Part{Name: string(address), GPU: address, NUMA: i, Hive: uint64(0xa1 * (1 - i))}})
	}
	var out bytes.Buffer
	drawNode(console.Fixed(&out, 80), book)
	if want := "hive 0xa1\n  NUMA 0  05 [□]\nno hive\n  NUMA 1  9d [□]\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("drawn\n%s\nwant\n%s", &out, want)
	}
}

func TestDrawNode_Holders(t *testing.T) {
	var book []lease.Allocation
	for i, address := range []partition.Address{"0000:05:00.0", "0000:26:00.0"} {
		for p := range 4 {
			book = append(book, lease.Allocation{Part: runstate.Part{Name: string(address), GPU: address, Index: p, Domain: p / 2, NUMA: i, Hive: 0xa1}})
		}
	}
	const scope = "dcm-lease-1000-3a64db49.scope"
	book[0].Units, book[1].Units = []string{scope}, []string{scope}
	book[2].For, book[2].Units = "llm", []string{"llm.service"}
	book[3].For = "llm"
	book[5].Users = []string{"python[4711]"}
	var out bytes.Buffer
	drawNode(console.Fixed(&out, 60), book)
	const want = `hive 0xa1
  NUMA 0  05 [■■│▣▣]
  NUMA 1  26 [□▨│□□]
■ lease  ▣ reserved  ▨ other use  □ free  │ between memory
  domains
Distance: within a memory domain 1, within a GPU 13, between
  NUMA nodes 60 ('dcm topology --long' has every pair)

  HOLDER                         PARTITIONS
  dcm-lease-1000-3a64db49.scope  05-0, 05-1
  llm.service                    05-2
  reservation llm                05-3
  python[4711]                   26-1
`
	if out.String() != want {
		t.Errorf("drawn\n%s\nwant\n%s", &out, want)
	}
}
