package supervisor

import (
	"context"
	"sync"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// loadPatience is how long a list waits for workers. One that does not answer in
// time shows its last load.
const loadPatience = 50 * time.Millisecond

// lookAtLoads asks all workers for their load at the same time, also those of
// empty slots: an eviction keeps context pages in host memory.
func (s *snapshot) lookAtLoads(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, loadPatience)
	defer cancel()
	var asked sync.WaitGroup
	for _, d := range s.slots {
		sl := d.slot
		sl.memory.Store(residentBytes(sl.view.Load().PID))
		worker := sl.worker.Load()
		if worker == nil {
			continue
		}
		asked.Go(func() {
			st, err := (*worker).Status(ctx)
			if err != nil {
				return // the owner learns in its own way of a worker that is lost
			}
			sl.load.Store(&shared.SlotLoad{
				SequencesRunning: st.SequencesRunning,
				SequencesWaiting: st.SequencesWaiting,
				KVTokensUsed:     st.KVTokensUsed,
				KVTokensTotal:    st.KVTokensTotal,
				Pages:            st.Pages,
			})
		})
	}
	asked.Wait()
}
