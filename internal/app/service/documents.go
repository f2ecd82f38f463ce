package service

import (
	"context"
	"encoding/json"

	"dcm/internal/app/leaseservice"
	"dcm/internal/engine/host"
)

// documents is the [dbusapi.DocumentService].
type documents struct {
	host   *host.Host
	status *statusPublisher
	leases *leaseservice.Service
}

func (d documents) Account(ctx context.Context) (string, error) { return d.status.Account(ctx) }

// History returns the runs that dcm history shows.
func (d documents) History(context.Context) (string, error) {
	all, err := host.History(d.host)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(all)
	return string(text), err
}

func (d documents) Usage(ctx context.Context) (string, error) { return d.leases.Usage(ctx) }
