package llamacpp

import (
	"slices"
	"strings"
	"testing"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// loadAsOnAGPU builds a model tensor by tensor, as it is done for a GPU, in the
// CPU's memory.
func loadAsOnAGPU(t *testing.T, data []byte, progress func(float32) bool) (*Model, error) {
	t.Helper()
	e := engine(t)
	e.mu.Lock()
	defer e.mu.Unlock()
	params := llama.ModelDefaultParams()
	params.SetCPUOnly()
	params.LoadMode, params.LazyMode = llama.LoadModeNone, llama.LazyModeOff
	l, m := &loading{report: progress}, &Model{engine: e}
	var err error
	said := e.log.during(func() { m.handle, err = e.loadTensors(data, params, l) })
	if err = l.failure(m.handle, err, said); err == nil {
		err = m.read(said)
	}
	t.Cleanup(m.Close)
	return m, err
}

// A model built tensor by tensor out of a buffer is the model of the file: the same
// text, and logits as near as the other layout of its weights allows.
func TestModelFromTensors(t *testing.T) {
	for _, tt := range []struct {
		precision string
		near      float32
	}{{"f16", 0.05}, {"q8_0", 0.5}, {"q4_0", 0.5}} {
		t.Run(tt.precision, func(t *testing.T) {
			mapped := loadPath(t, tt.precision)
			prompt := tokenize(t, mapped, fox)
			tokens, want := greedy(t, newContext(t, mapped, small()), 0, prompt, 40)
			var told []float32
			data := modelBytes(t, tt.precision)
			m, err := loadAsOnAGPU(t, data, func(p float32) bool { told = append(told, p); return true })
			if err != nil {
				t.Fatal(err)
			}
			clear(data) // the engine has copied it
			if len(told) < 10 || !slices.IsSorted(told) || told[len(told)-1] < 0.8 || told[len(told)-1] > 1 {
				t.Errorf("progress %v", told)
			}
			if m.Info().OwnBytes < m.Info().WeightBytes*9/10 || m.Info().HostBytes != 0 {
				t.Errorf("%+v", m.Info())
			}
			c := newContext(t, m, small())
			got := last(t, c, run(0, 0, prompt...))
			for i := range tokens {
				if d := furthest(got, want[i]); d > tt.near {
					t.Fatalf("logits of step %d differ by %v", i, d)
				}
				if i == len(tokens)-1 {
					break
				}
				got = last(t, c, run(0, int32(len(prompt)+i), tokens[i]))
			}
		})
	}
}

func TestModelFromTensorsIsGivenUp(t *testing.T) {
	if _, err := loadAsOnAGPU(t, modelBytes(t, "q8_0"), func(float32) bool { return false }); shared.KindOf(err) != shared.KindCancelled {
		t.Errorf("got %v", err)
	}
	data := modelBytes(t, "q8_0")
	for name, bad := range map[string][]byte{"no header": []byte("nothing like it"), "weights cut off": data[:len(data)*2/3]} {
		if _, err := loadAsOnAGPU(t, bad, nil); shared.KindOf(err) != shared.KindModelFile {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Without CUDA in the engine's folder the error says how to get it.
func TestNoDevice(t *testing.T) {
	for device, kind := range map[string]shared.Kind{"cuda:0": shared.KindEngineMissing, "tpu": shared.KindInvalid} {
		_, err := engine(t).Load(slotworker.LoadRequest{Path: modelPath("q8_0"), Device: device})
		if shared.KindOf(err) != kind || kind == shared.KindEngineMissing && !strings.Contains(err.Error(), "firstframe engine install --device cuda") {
			t.Errorf("%s: got %v", device, err)
		}
	}
}
