package service

import (
	"context"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
)

func (w watched) Use(ctx context.Context) (runstate.Use, error) { return apply.UseOf(ctx, w.node) }

func (w watched) AwaitUseBelow(ctx context.Context, than runstate.Use) error {
	return w.node.WaitUsage(ctx, func(u gpu.Usage) bool { return than.Eased(apply.Use(u)) })
}
