model "m" { path = "m.gguf" }
slot "s" {
  model   = model.m
  on_miss = "waits"
}
