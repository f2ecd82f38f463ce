package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestPersist(t *testing.T) {
	refused, expired := errors.New("connection refused"), apierrors.NewResourceExpired("too old")
	starting, busy := apierrors.NewServiceUnavailable("starting"), apierrors.NewTooManyRequestsError("busy")
	for _, test := range []struct {
		name   string
		errors []error // of the calls
	}{
		{"an answer", []error{nil}},
		{"an answer after failures", []error{refused, refused, nil}},
		{"an error of the server", []error{refused, expired}},
		{"a server that cannot answer yet", []error{refused, starting, busy, nil}},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := 0
			n, err := persist(t.Context(), time.Millisecond, func(context.Context) (int, error) {
				calls++
				return calls, test.errors[calls-1]
			})
			if n != len(test.errors) || !errors.Is(err, test.errors[n-1]) {
				t.Errorf("%d calls, %v", n, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := persist(ctx, time.Hour, func(context.Context) (int, error) { cancel(); return 0, refused })
	if !errors.Is(err, refused) {
		t.Errorf("after its end: %v", err)
	}
}
