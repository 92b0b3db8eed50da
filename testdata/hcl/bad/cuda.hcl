model "m" { path = "m.gguf" }
slot "s" {
  model  = model.m
  device = "cuda"
}
