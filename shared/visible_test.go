package shared

import "testing"

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"cannot open models/größe 模型.gguf: no such file\n\tnext": "cannot open models/größe 模型.gguf: no such file\n\tnext",
		"\x1b[2J\x1b]0;title\x07":                                `\x1b[2J\x1b]0;title\a`,
		"a\rb\u009bm\u202ec\u0000":                               `a\rb\u009bm\u202ec\x00`,
		"cut \xff\xe4 off":                                       `cut \xff\xe4 off`,
		`"quoted" \ and 'so'`:                                    `"quoted" \ and 'so'`,
		"":                                                       "",
	} {
		if got := Visible(text); got != want {
			t.Errorf("%q is shown as %q, not as %q", text, got, want)
		}
	}
}
