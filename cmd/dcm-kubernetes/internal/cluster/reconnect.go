package cluster

import (
	"context"
	stderrors "errors"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
)

// reconnectInterval is between two attempts to list or watch while the API server does not answer.
// The intervals of an informer grow to a minute, and the node may be cordoned meanwhile.
const reconnectInterval = 5 * time.Second

// persist repeats a call until the API server answers, with success or with an error, or ctx ends.
func persist[T any](ctx context.Context, interval time.Duration, call func(context.Context) (T, error)) (T, error) {
	for {
		out, err := call(ctx)
		var answer errors.APIStatus
		if err == nil || stderrors.As(err, &answer) {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(interval/2 + rand.N(interval)): // many nodes must not call concurrently
		}
	}
}
