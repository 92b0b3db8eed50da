model "m" { path = "m.gguf" }
slot "s" {
  model = model.m
  context { page = 50 }
}
