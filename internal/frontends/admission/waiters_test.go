package admission

import "testing"

// Users whose requests fill the queue do not exclude a user who has none.
func TestWait_PlaceForEachUser(t *testing.T) {
	l := New(Limits{Waiters: 2, AllWaiters: 4})
	for _, uid := range []uint32{1, 1, 2, 2} {
		if _, err := l.Wait(uid); err != nil {
			t.Fatal(err)
		}
	}
	leave, err := l.Wait(3)
	if err != nil {
		t.Fatal("first request of another user:", err)
	}
	if _, err := l.Wait(3); err == nil {
		t.Error("second request of that user was accepted, although the queue is full")
	}
	leave()
	for uid := range uint32(2) {
		if _, err := l.Wait(10 + uid); err != nil {
			t.Errorf("first request of user %d: %v", 10+uid, err)
		}
	}
	if _, err := l.Wait(20); err == nil {
		t.Error("the number of requests has no limit")
	}
}
