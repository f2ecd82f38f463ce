package cluster

import (
	"context"
	stderrors "errors"
	"math/rand/v2"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
)

// reconnectInterval is between two attempts to list or watch while the API server does not answer.
// The intervals of an informer grow to a minute, and the node may be cordoned meanwhile.
const reconnectInterval = 5 * time.Second

// persist repeats a call until the API server answers, or ctx ends. An error is an answer too, unless it
// says that the server or a load balancer in front of it cannot answer now.
func persist[T any](ctx context.Context, interval time.Duration, call func(context.Context) (T, error)) (T, error) {
	for {
		out, err := call(ctx)
		var answer errors.APIStatus
		if err == nil || stderrors.As(err, &answer) && !temporary(answer.Status().Code) {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(interval/2 + rand.N(interval)): // many nodes must not call concurrently
		}
	}
}

// temporary reports whether an HTTP status says that the same request may succeed later.
func temporary(code int32) bool {
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
}
