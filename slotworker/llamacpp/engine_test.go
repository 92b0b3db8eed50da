package llamacpp

import (
	"slices"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

func TestFits(t *testing.T) {
	for reported, want := range map[string]bool{
		"0.5.0": true, "0.5.0-dev": true, "0.5.0-rc.1": true,
		"0.5.01": false, "0.5.1": false, "0.5": false, "10.5.0": false, "": false, "b10644": false, "0.5.0.1": false,
	} {
		if fits(reported, "0.5.0") != want {
			t.Errorf("%q: %v", reported, !want)
		}
	}
}

func TestOpenSaysWhatIsLoaded(t *testing.T) {
	info := engine(t).Info()
	if !fits(info.Version, shared.EngineVersion) {
		t.Errorf("version %q", info.Version)
	}
	// Names are of micro-architectures or of feature levels.
	if info.CPUVariant == "" || info.CPUVariant == "built-in" || strings.ContainsAny(info.CPUVariant, "/ ") {
		t.Errorf("CPU variant %q", info.CPUVariant)
	}
}

func TestOpenWithoutLibrary(t *testing.T) {
	_, err := Open(t.TempDir())
	if shared.KindOf(err) != shared.KindEngineMissing || !strings.Contains(err.Error(), shared.EngineVersion) {
		t.Errorf("error %v", err)
	}
}

func TestLogged(t *testing.T) {
	l := logged{text: strings.Join([]string{
		"load_backend: loaded CPU backend from /x/libggml-cpu-haswell.so",
		"load_tensors:   CPU_Mapped model buffer size =     3.20 MiB",
		"load_tensors:   CPU_REPACK model buffer size =     1.50 MiB",
		"llama_context:        CPU  output buffer size =     0.25 MiB",
		"llama_kv_cache:        CPU KV buffer size =    16.00 MiB",
		"sched_reserve:        CPU compute buffer size =     6.50 MiB",
	}, "\n")}
	if got := l.buffers(func(_, kind string) bool { return kind == "model" }); got != 3<<19 {
		t.Errorf("%d bytes of weights", got)
	}
	if got := l.buffers(func(_, kind string) bool { return kind != "model" }); got != 22<<20+3<<18 {
		t.Errorf("%d bytes of buffers", got)
	}
	for line, want := range map[string]string{
		l.text: "haswell", "": "built-in",
		"load_backend: loaded CPU backend from /x/libggml-cpu.so":             "default",
		"load_backend: loaded CPU backend from /x/libggml-cpu-armv8.2_1.so\n": "armv8.2_1",
	} {
		if got := (logged{text: line}).variant(); got != want {
			t.Errorf("%q: variant %q, want %q", line, got, want)
		}
	}
	for problems, want := range map[string]string{
		"": "the engine gave no reason",
		"llama_model_load: error loading model: bad magic\nllama_model_load: error loading model: bad magic\n": "error loading model: bad magic",
		"a: 1\nb: 2\nc: 3\nd: 4\n":  "2; 3; 4",
		"two words: stay as is\n":   "two words: stay as is",
		"x: \xff\n":                 "?",
		strings.Repeat("long ", 99): strings.Repeat("long ", 80) + "…",
	} {
		if got := (logged{problems: problems}).reason(); got != want {
			t.Errorf("%q: reason %q, want %q", problems, got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	m := loadPath(t, "q8_0")
	tokens := tokenize(t, m, fox)
	if text := text(m, tokens); text != "Tell me a story about a fox." {
		t.Errorf("text without special tokens %q", text)
	}
	var whole []byte
	for _, token := range tokens {
		whole = append(whole, m.Piece(token, true)...)
	}
	if string(whole) != fox {
		t.Errorf("text with special tokens %q", whole)
	}
	if tokens[0] != m.BOS() || m.EOS() < 0 || !m.IsEOG(m.EOS()) || m.IsEOG(tokens[5]) {
		t.Errorf("BOS %d, EOS %d, first token %d", m.BOS(), m.EOS(), tokens[0])
	}
	plain, err := m.Tokenize("<s>", false, false)
	if err != nil || len(plain) < 2 {
		t.Errorf("special tokens were parsed: %v, %v", plain, err)
	}
	added, err := m.Tokenize("fox", true, false)
	if err != nil || added[0] != m.BOS() {
		t.Errorf("no special token was added: %v, %v", added, err)
	}
	for _, token := range []int32{-1, 1024, 1 << 30, -1 << 31} {
		if m.IsEOG(token) || m.Piece(token, true) != nil {
			t.Errorf("token %d exists", token)
		}
	}
	for _, odd := range []string{"", "a\x00b", "\xff\xfe", strings.Repeat("fox ", 5000), "é🦊"} {
		tokens, err := m.Tokenize(odd, false, false)
		if err != nil {
			t.Errorf("%.10q: %v", odd, err)
		}
		if got := text(m, tokens); got != odd && strings.ToValidUTF8(odd, "") == odd {
			t.Errorf("%.10q came back as %.10q", odd, got)
		}
	}
}

func TestPiecesAreRemembered(t *testing.T) {
	m := loadPath(t, "q8_0")
	token := tokenize(t, m, " fox")[0]
	first := m.Piece(token, false)
	if len(first) == 0 || &first[0] != &m.Piece(token, false)[0] {
		t.Error("a piece was asked for twice")
	}
	if cap(first) != len(first) {
		t.Error("appending to a piece would write behind it")
	}
	if special := m.Piece(m.BOS(), true); string(special) != "<s>" || len(m.Piece(m.BOS(), false)) != 0 {
		t.Errorf("the special token is %q", special)
	}
}

func TestClosedModel(t *testing.T) {
	m := load(t, pathRequest("q8_0"))
	m.Close()
	m.Close()
	if _, err := m.Tokenize("x", true, true); err == nil {
		t.Error("a closed model tokenizes")
	}
	if _, err := m.NewContext(small()); err == nil {
		t.Error("a closed model makes a context")
	}
	if _, err := m.NewSampler(shared.Sampling{RepeatPenalty: 2}, nil); err == nil {
		t.Error("a closed model makes a sampler")
	}
	if m.IsEOG(1) || m.Piece(1, false) != nil {
		t.Error("a closed model has tokens")
	}
	// What is in Go memory stays.
	if m.Info().Vocab != 1024 || !slices.Contains([]int32{1018}, m.BOS()) {
		t.Error("a closed model forgot what it is")
	}
}
