package hcl

import (
	"strings"
	"testing"
)

func TestEnvironmentIsNeverPrinted(t *testing.T) {
	const secret = "correct-horse-battery"
	for _, text := range []string{
		`slot "s" { threads = env("SECRET") }
		 model "m" { path = "x" }`,
		`locals { a = env("SECRET") }
		 model "m" { path = local.a + 1 }`,
		`locals { a = { b = env("SECRET") } }
		 model "m" { path = local.a.c }`,
		`model "m" { path = env(env("SECRET")) }`,
		`model "m" { path = { for x in ["a", "b"] : env("SECRET") => x } }`,
		`model "m" { path = true ? { (env("SECRET")) = 1 } : { b = 1 } }`,
		`model "m" { path = { a = 1 }[env("SECRET")] }`,
		`locals { a = { b = 1 } }
		 model "m" { path = local.a[env("SECRET")] }`,
		`model "m" { path = "${[env("SECRET")]}" }`,
		`model "m" { path = env("SECRET").x }`,
		`model "m" { path = -env("SECRET") }`,
		`model "m" { path = !env("SECRET") }`,
		`model "m" { path = env("SECRET") ? 1 : 2 }`,
		`model "m" { path = env("SECRET") && true }`,
		`model "m" {
			path      = "m"
			name      = "${env("SECRET")} "
			sha256    = env("SECRET")
			precision = env("SECRET")
		 }
		 slot "s" {
			model    = model.m
			device   = env("SECRET")
			transfer = env("SECRET")
			on_miss  = env("SECRET")
			preload  = env("SECRET")
			context {
				tokens  = env("SECRET")
				kv_type = env("SECRET")
			}
		 }`,
		`locals { a = env("SECRET") }
		 model "m" { path = [local.a] }
		 slot "s" { model = local.a }`,
	} {
		cfg, out := parseText(text, map[string]string{"SECRET": secret})
		if cfg != nil || out == "" {
			t.Errorf("accepted: %s", text)
		}
		if strings.Contains(out, secret) {
			t.Errorf("the value of the environment variable is printed:\n%s", out)
		}
	}
}

func TestEnvironmentMustBeText(t *testing.T) {
	cfg, out := parseText(`model "m" { path = env("A") }
	slot "s" { model = model.m }`, map[string]string{"A": "\xff"})
	if cfg != nil || !strings.Contains(out, "not UTF-8") {
		t.Error(out)
	}
}
