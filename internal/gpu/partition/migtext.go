package partition

import (
	"fmt"
	"strconv"
	"strings"
)

// Texts in files for a GPU without instances.
const (
	offText   = "off"
	emptyText = "empty"
)

// MarshalText returns the geometry in the form of files: "3g.40gb@0 1g.10gb@4", "off" or
// "empty".
func (m MIG) MarshalText() ([]byte, error) {
	switch {
	case m.Off:
		return []byte(offText), nil
	case len(m.Instances) == 0:
		return []byte(emptyText), nil
	}
	return []byte(strings.Join(texts(m.Instances), " ")), nil
}

// UnmarshalText parses the form of [MIG.MarshalText].
func (m *MIG) UnmarshalText(text []byte) error {
	*m = MIG{Off: string(text) == offText}
	if m.Off || string(text) == emptyText {
		return nil
	}
	for _, one := range strings.Split(string(text), " ") {
		i, err := parseInstance(one)
		if err != nil {
			return err
		}
		m.Instances = append(m.Instances, i)
	}
	return nil
}

// String returns "3g.40gb@4" with the first slot, or "3g.40gb" without a placement. With
// compute instances it is "1c.3g.40gb/2c.3g.40gb@4".
func (i Instance) String() string {
	name := i.Profile
	if len(i.Compute) > 0 {
		name = strings.Join(i.Compute, "/")
	}
	if i.Start == unplaced {
		return name
	}
	return fmt.Sprintf("%s@%d", name, i.Start)
}

func parseInstance(text string) (Instance, error) {
	i := Instance{Start: unplaced}
	name, start, placed := strings.Cut(text, "@")
	if placed {
		n, err := strconv.ParseUint(start, 10, 6)
		if err != nil {
			return Instance{}, fmt.Errorf("%q is not a memory slot, in %q", start, text)
		}
		i.Start = int(n)
	}
	for _, one := range strings.Split(name, "/") {
		p, err := ParseMIGProfile(one)
		if err != nil {
			return Instance{}, err
		}
		if gi := p.GPUInstance(); i.Profile != "" && i.Profile != gi {
			return Instance{}, fmt.Errorf("%q has compute instances of two GPU instances", text)
		}
		i.Profile = p.GPUInstance()
		if p.Compute > 0 {
			i.Compute = append(i.Compute, one)
		}
	}
	return i, nil
}

func texts(list []Instance) []string {
	out := make([]string, len(list))
	for i, one := range list {
		out[i] = one.String()
	}
	return out
}
