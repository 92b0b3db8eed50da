package supervisor

import "time"

// alarm is a timer that may not have been set.
type alarm struct {
	timer *time.Timer
	at    time.Time
}

func (a *alarm) set(d time.Duration) {
	a.stop()
	a.timer, a.at = time.NewTimer(d), time.Now().Add(d)
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.at = time.Time{}
}

// setAt is for a moment; zero means none. It does nothing when that is the
// moment already.
func (a *alarm) setAt(at time.Time) {
	switch {
	case at.Equal(a.at):
	case at.IsZero():
		a.stop()
	default:
		a.set(time.Until(at))
		a.at = at
	}
}

func (a *alarm) fired() <-chan time.Time {
	if a.timer == nil {
		return nil
	}
	return a.timer.C
}
