package systemd

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"

	"dcm/internal/sanitize"
)

// property reads a property of a unit. PID 1 loads the unit if necessary.
func (t *transport) property(ctx context.Context, unit, iface, name string, value any) error {
	if err := t.get(ctx, unitPath(unit), iface, name, value); err != nil {
		return fmt.Errorf("cannot read %s of %s: %w", name, unit, err)
	}
	return nil
}

// managerProperty reads a property of PID 1 itself.
func (t *transport) managerProperty(ctx context.Context, name string, value any) error {
	if err := t.get(ctx, managerPath, managerInterface, name, value); err != nil {
		return fmt.Errorf("cannot read %s of systemd: %w", name, err)
	}
	return nil
}

func (t *transport) get(ctx context.Context, path dbus.ObjectPath, iface, name string, value any) error {
	var v dbus.Variant
	if err := t.call(ctx, &v, path, properties+".Get", iface, name); err != nil {
		return err
	}
	if err := v.Store(value); err != nil {
		return err
	}
	if text, ok := value.(*string); ok {
		*text = sanitize.Text(*text)
	}
	return nil
}

// wanted is a property to read, and where to store its value.
type wanted struct {
	iface, name string
	value       any
}

// properties reads properties of a unit until one fails. It does not use GetAll, which makes
// PID 1 read the unit's cgroup, too.
func (t *transport) properties(ctx context.Context, unit string, list ...wanted) error {
	for _, w := range list {
		if err := t.property(ctx, unit, w.iface, w.name, w.value); err != nil {
			return err
		}
	}
	return nil
}

func (t *transport) invocation(ctx context.Context, unit string) (string, error) {
	var id []byte
	err := t.property(ctx, unit, unitInterface, "InvocationID", &id)
	return hex.EncodeToString(id), err
}

// isRemote reports whether err is the D-Bus error with that name.
func isRemote(err error, name string) bool {
	var remote dbus.Error
	return errors.As(err, &remote) && remote.Name == name
}
