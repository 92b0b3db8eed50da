package llamacpp

import (
	"strings"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// adapt loads adapters beside a model. Their factors are computed apart from the
// weights, in memory of their own.
func (m *Model) adapt(list []slotworker.AdapterSource) error {
	for _, a := range list {
		if strings.IndexByte(a.Path, 0) >= 0 {
			return shared.Errorf(shared.KindInvalid, "the adapter's path has a zero byte in it")
		}
		var handle llama.AdapterLora
		var err error
		said := m.engine.log.during(func() { handle, err = llama.AdapterLoraInit(m.handle, a.Path) })
		switch {
		case err != nil:
			return shared.Errorf(shared.KindModelFile, "cannot load adapter %s: %w", a.Name, err)
		case handle == 0:
			return shared.Errorf(shared.KindModelFile, "cannot load adapter %s: %s", a.Name, said.reason())
		}
		m.adapters, m.scales = append(m.adapters, handle), append(m.scales, a.Scale)
		m.info.OwnBytes += said.buffers(func(where, kind string) bool { return kind == "LoRA" && !m.inHost(where) })
		m.info.HostBytes += said.buffers(func(where, kind string) bool { return kind == "LoRA" && m.inHost(where) })
	}
	return nil
}

// apply makes a context compute with the model's adapters.
func (m *Model) apply(to llama.Context) error {
	if len(m.adapters) == 0 {
		return nil
	}
	if code := llama.SetAdaptersLora(to, m.adapters, m.scales); code != 0 {
		return shared.Errorf(shared.KindEngine, "cannot apply the adapters to a context: code %d", code)
	}
	return nil
}
