model "m" { path = "m.gguf" }
slot "s" {
  model  = model.m
  thread = 2
}
