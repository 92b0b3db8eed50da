model "m" { path = "m.gguf" }
slot "s" {
  model = model.m
  restart { attempts = 1 }
}
