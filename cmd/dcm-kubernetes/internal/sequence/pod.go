package sequence

import (
	"slices"
	"time"
)

// Pod is a pod of the node.
type Pod struct {
	Namespace, Name, UID string
	Owner                string // namespace and name of its controller; "" for none
	Mirror               bool   // a static pod, which a file on the node creates
	Leaving              bool   // it is terminating
	Ready                bool
	Stays                bool      // it tolerates the taint
	NotBefore            time.Time // the earliest time of the next eviction request
	Refused              string    // the reason why the last eviction request was refused
	Devices              []string  // the devices it uses, as "POOL/DEVICE"; nil if it may use any GPU
	Claims               bool      // the kubelet needs the DRA driver to end it
	Driver               bool      // it is a DRA driver
}

// The kubelet ends a pod with claims only while the DRA driver of the claims runs. So operands with claims
// leave before the driver.

// going returns the operands that leave the node. One that tolerates the taint stays. If it terminates, it
// leaves too, but only while a driver can release its claims.
func going(operands []Pod) []Pod {
	driver := slices.ContainsFunc(operands, func(p Pod) bool { return p.Driver && !p.Leaving })
	return slices.DeleteFunc(slices.Clone(operands), func(p Pod) bool { return p.Stays && !(p.Claims && p.Leaving && driver) })
}

// claimed reports whether a pod has to leave before the DRA driver.
func claimed(pods []Pod) bool {
	return slices.ContainsFunc(pods, func(p Pod) bool { return p.Claims && !p.Driver })
}

// due returns the operands to delete now.
func due(going []Pod) []Pod {
	first := claimed(going)
	return slices.DeleteFunc(slices.Clone(going), func(p Pod) bool { return p.Leaving || p.Driver && first })
}
