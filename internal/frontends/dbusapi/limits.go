package dbusapi

import (
	"time"

	"dcm/internal/frontends/admission"
)

// Limits of concurrent calls: of one user, and of all users except root. The second one is necessary
// since a person can have many user ids (subuid(5)).
const (
	maxUserCalls = 16
	maxCalls     = 256
)

// Limits of requests that wait for a lease, of members of the configured groups. They are not part
// of the limits above, so a user whose jobs all wait can still query and release. The bus allows 512
// match rules per connection, and each waiting request needs one.
const (
	maxUserWaiters = 128
	maxWaiters     = 256
)

// queryInterval is the average interval between two queries of one user.
const queryInterval = time.Second / 2

// Rate of the requests of one user for which an instance is created: 15 per minute on average. Creating and
// destroying an instance takes the driver seconds, one at a time.
const (
	maxUserMakes = 16
	makeInterval = 4 * time.Second
)

// Rates of the standard interfaces and of the replies of one user. `busctl tree` makes one call for each of 73
// objects. A bus keeps replies that a user does not read, and dbus-daemon stops reading from the daemon when
// it has 127 MiB of them.
const (
	maxUserReads  = 1024
	readInterval  = 2 * time.Millisecond
	maxUserReply  = 4 << 10 // KiB
	replyInterval = 2 * time.Millisecond
)

// Limits of received calls that are not answered. They keep the memory of the daemon below a quarter of its
// MemoryMax=, since decoding takes up to twenty times the bytes of a call.
//
// After a restart of the daemon, all waiting requests return concurrently.
var backlogLimits = admission.BacklogLimits{
	Call:   64 << 10,
	Sender: admission.Share{Calls: maxUserWaiters + maxUserCalls, Bytes: 128 << 10}, Senders: admission.Share{Calls: 2 * maxWaiters, Bytes: 512 << 10},
	User: admission.Share{Calls: maxUserWaiters + 2*maxUserCalls, Bytes: 256 << 10}, Users: admission.Share{Calls: 2 * maxWaiters, Bytes: 1 << 20},
	Root: admission.Share{Calls: 1024, Bytes: 1 << 20},
}

// Refusals of calls above the limits are sent at this rate. If more wait, the calls get no reply.
const (
	maxRefusals     = 256
	refusalInterval = time.Millisecond
)

// newLimiter returns the limiter of all calls. A query takes the daemon and PID 1 some milliseconds
// each. The burst of leases permits all waiting requests to return immediately after a restart of the
// daemon.
func newLimiter() *admission.Limiter {
	return admission.New(admission.Limits{
		Calls: maxUserCalls, AllCalls: maxCalls, Waiters: maxUserWaiters, AllWaiters: maxWaiters, RootExempt: true,
		Rates: map[admission.Kind]admission.Rate{
			admission.Query:  {Burst: maxUserCalls, Interval: queryInterval},
			admission.Change: {Burst: maxUserCalls, Interval: queryInterval},
			admission.Lease:  {Burst: maxUserWaiters, Interval: time.Second / 10},
			admission.Make:   {Burst: maxUserMakes, Interval: makeInterval},
			admission.Read:   {Burst: maxUserReads, Interval: readInterval},
			admission.Reply:  {Burst: maxUserReply, Interval: replyInterval},
		},
	})
}
