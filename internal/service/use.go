package service

import (
	"context"

	"dcm/internal/apply"
	"dcm/internal/gpu"
	"dcm/internal/report"
)

func (w watched) Use(ctx context.Context) (report.Use, error) { return apply.UseOf(ctx, w.node) }

func (w watched) Eased(ctx context.Context, than report.Use) error {
	return w.node.WaitUsage(ctx, func(u gpu.Usage) bool { return than.Eased(apply.Use(u)) })
}
