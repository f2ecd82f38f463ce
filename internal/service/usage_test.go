package service

import (
	"os"
	"testing"

	"dcm/internal/account"
	"dcm/internal/apply"
	"dcm/internal/config"
	"dcm/internal/host"
)

func TestNobodyLooksAtGPUsThatARunIsAtWorkOn(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	release, err := apply.Lock(h.Lock())
	if err != nil {
		t.Fatal(err)
	}
	p := ground(h, &config.Config{})
	if u := p.usage(t.Context()); u.Why(account.PartUses) != "the GPUs are being partitioned" || len(u.Parts) > 0 {
		t.Errorf("in a run: %+v", u)
	}
	release()
	if u := p.usage(t.Context()); u.Why(account.PartUses) == "the GPUs are being partitioned" || u.Why(account.PartHolders) == "" {
		t.Errorf("behind it: %+v", u)
	}
}
