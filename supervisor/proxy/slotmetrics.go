package proxy

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firstframe/firstframe/shared"
)

// scrapeTimeout bounds how long a scrape waits for the supervisor.
const scrapeTimeout = 2 * time.Second

// slotCollector asks the supervisor at each scrape, so that no copy goes stale.
type slotCollector struct{ frontend shared.Frontend }

// slotSeries is one number of a slot.
type slotSeries struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(shared.SlotInfo) float64
}

func slotDesc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"slot"}, more...), nil)
}

// running and waiting split the requests that hold a lease: a slot runs as many
// as it has sequences.
func running(s shared.SlotInfo) float64 { return float64(min(s.InFlight, s.Parallel)) }
func waiting(s shared.SlotInfo) float64 { return float64(max(s.InFlight-s.Parallel, 0)) }

func kvUsage(used, total int64) float64 {
	if total == 0 {
		return 0
	}
	return float64(used) / float64(total)
}

func allSlotSeries() []slotSeries {
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	return []slotSeries{
		{slotDesc("firstframe_requests_running", "Requests that run on a sequence of the slot."), gauge, running},
		{slotDesc("firstframe_requests_waiting", "Requests that wait for a sequence of the slot."), gauge, waiting},
		{slotDesc("firstframe_kv_cache_usage_ratio", "Part of the slot's context tokens that are in use, 0 to 1."), gauge,
			func(s shared.SlotInfo) float64 { return kvUsage(s.Load.KVTokensUsed, s.Load.KVTokensTotal) }},
		{slotDesc("firstframe_slot_restarts_total", "Restarts of the slot's worker process."), counter,
			func(s shared.SlotInfo) float64 { return float64(s.Restarts) }},
		{slotDesc("firstframe_slot_host_bytes", "Host buffer of the slot."), gauge,
			func(s shared.SlotInfo) float64 { return float64(s.HostBytes) }},
		{slotDesc("firstframe_slot_device_bytes", "Device buffers of the slot."), gauge,
			func(s shared.SlotInfo) float64 { return float64(s.DeviceBytes) }},
		{slotDesc("firstframe_pages_host_bytes", "Context pages of the slot in host memory."), gauge,
			func(s shared.SlotInfo) float64 { return float64(s.Load.Pages.Host.Bytes) }},
		{slotDesc("firstframe_pages_disk_bytes", "Context pages of the slot on disk."), gauge,
			func(s shared.SlotInfo) float64 { return float64(s.Load.Pages.Disk.Bytes) }},
		{slotDesc("firstframe_context_hit_tokens_total", "Prompt tokens that came from context pages, since the slot was activated."), counter,
			func(s shared.SlotInfo) float64 {
				return float64(s.Load.Pages.HitHostTokens + s.Load.Pages.HitDiskTokens)
			}},
	}
}

func slotStateDesc() *prometheus.Desc {
	return slotDesc("firstframe_slot_state", "1 for the slot's status and process state.", "status", "process")
}

func missDesc() *prometheus.Desc {
	return slotDesc("firstframe_context_miss_tokens_total", "Prompt tokens that no page covered, by reason, since the slot was activated.", "reason")
}

// endpointSeries are the gauges by which the Kubernetes inference extension picks
// an endpoint, for all slots together and under the names it looks for unless it
// is told others.
type endpointSeries struct {
	desc  *prometheus.Desc
	value func(shared.SlotList) float64
}

func sum(of func(shared.SlotInfo) float64) func(shared.SlotList) float64 {
	return func(l shared.SlotList) (total float64) {
		for _, s := range l.Slots {
			total += of(s)
		}
		return total
	}
}

func allEndpointSeries() []endpointSeries {
	return []endpointSeries{
		{prometheus.NewDesc("vllm:num_requests_running", "firstframe_requests_running of all slots.", nil, nil), sum(running)},
		{prometheus.NewDesc("vllm:num_requests_waiting", "firstframe_requests_waiting of all slots.", nil, nil), sum(waiting)},
		{prometheus.NewDesc("vllm:kv_cache_usage_perc", "Part of all slots' context tokens that are in use, 0 to 1.", nil, nil),
			func(l shared.SlotList) float64 {
				var used, total int64
				for _, s := range l.Slots {
					used, total = used+s.Load.KVTokensUsed, total+s.Load.KVTokensTotal
				}
				return kvUsage(used, total)
			}},
	}
}

// Describe lists the series.
func (c *slotCollector) Describe(out chan<- *prometheus.Desc) {
	for _, s := range allSlotSeries() {
		out <- s.desc
	}
	for _, s := range allEndpointSeries() {
		out <- s.desc
	}
	out <- slotStateDesc()
	out <- missDesc()
}

// Collect asks for the slots as they are now.
func (c *slotCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	list, err := c.frontend.ListSlots(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(slotStateDesc(), err)
		return
	}
	for _, s := range allEndpointSeries() {
		out <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, s.value(list))
	}
	for _, slot := range list.Slots {
		for _, s := range allSlotSeries() {
			out <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value(slot), slot.SlotID)
		}
		for reason, tokens := range slot.Load.Pages.MissTokens {
			out <- prometheus.MustNewConstMetric(missDesc(), prometheus.CounterValue, float64(tokens), slot.SlotID, reason)
		}
		out <- prometheus.MustNewConstMetric(slotStateDesc(), prometheus.GaugeValue, 1,
			slot.SlotID, string(slot.Status), string(slot.Process))
	}
}
