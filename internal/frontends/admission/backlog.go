package admission

import "sync"

// Share is a number of calls and the sum of their bytes.
type Share struct{ Calls, Bytes int }

// BacklogLimits are the limits of a [Backlog].
type BacklogLimits struct {
	Call            int   // bytes of one call
	Sender, Senders Share // calls of one connection whose user is not known yet, and of all such connections
	User, Users     Share // calls of one user, and of all users except root
	Root            Share
}

// Backlog limits the calls of one connection to a bus that are received and not answered. A frontend counts
// a call before it copies the call or starts a goroutine for it. At that time, the user of a
// new sender is not known yet, so such calls have limits of their own.
type Backlog struct {
	limits BacklogLimits

	mu      sync.Mutex
	senders shares[string]
	users   shares[uint32]
	root    shares[uint32]
	known   map[string]uint32 // the users of senders; the bus never uses a sender's name twice
}

// NewBacklog returns a backlog without calls.
func NewBacklog(l BacklogLimits) *Backlog {
	return &Backlog{
		limits: l, known: make(map[string]uint32),
		senders: newShares[string](l.Sender, l.Senders), users: newShares[uint32](l.User, l.Users), root: newShares[uint32](l.Root, l.Root),
	}
}

// Received is one call of a backlog.
type Received struct {
	backlog *Backlog
	sender  string
	size    int
	leave   func() // ends the call's part of a share; the caller must hold the mutex of the backlog
}

// Receive counts a call. The caller must call Leave after it has sent the reply.
func (b *Backlog) Receive(sender string, size int) (*Received, error) {
	if size > b.limits.Call {
		return nil, &LimitError{"the call is too large"}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &Received{backlog: b, sender: sender, size: size}
	var err error
	if owner, ok := b.known[sender]; ok {
		r.leave, err = b.of(owner).enter(owner, size, false)
	} else {
		r.leave, err = b.senders.enter(sender, size, true)
	}
	return r, err
}

// Identify counts the call for its user instead of its sender.
func (r *Received) Identify(owner uint32) error {
	b := r.backlog
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.known[r.sender]; !ok {
		if len(b.known) >= remembered {
			clear(b.known)
		}
		b.known[r.sender] = owner
	}
	r.end()
	var err error
	r.leave, err = b.of(owner).enter(owner, r.size, false)
	return err
}

// Leave ends the call. A second Leave does nothing.
func (r *Received) Leave() {
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	r.end()
}

func (r *Received) end() {
	if r.leave != nil {
		r.leave()
		r.leave = nil
	}
}

// of returns the shares that a user's calls count for.
func (b *Backlog) of(owner uint32) *shares[uint32] {
	if owner == 0 {
		return &b.root
	}
	return &b.users
}

// shares counts the calls of each key and of all keys.
type shares[K comparable] struct {
	one, all Share // limits
	sum      Share
	by       map[K]Share
}

func newShares[K comparable](one, all Share) shares[K] {
	return shares[K]{one: one, all: all, by: make(map[K]Share)}
}

// enter counts a call. If reserve is set, the first call of a key is accepted up to twice the limit of
// all, so that keys with many calls do not exclude a new one.
func (s *shares[K]) enter(key K, size int, reserve bool) (leave func(), err error) {
	now, all := s.by[key], s.all
	if reserve && now.Calls == 0 {
		all = Share{2 * all.Calls, 2 * all.Bytes}
	}
	switch {
	case !now.fits(size, s.one):
		return nil, &LimitError{"too many of your calls are under way; try again"}
	case !s.sum.fits(size, all):
		return nil, &LimitError{"too many calls are under way; try again"}
	}
	s.by[key], s.sum = now.plus(1, size), s.sum.plus(1, size)
	return func() {
		s.sum = s.sum.plus(-1, -size)
		if s.by[key] = s.by[key].plus(-1, -size); s.by[key].Calls == 0 {
			delete(s.by, key)
		}
	}, nil
}

func (s Share) fits(size int, limit Share) bool {
	return s.Calls < limit.Calls && s.Bytes+size <= limit.Bytes
}

func (s Share) plus(calls, bytes int) Share { return Share{s.Calls + calls, s.Bytes + bytes} }
