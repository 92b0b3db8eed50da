model "m" { path = "m.gguf" }
slot "s" {
  model   = model.m
  threads = 0
  context {
    tokens   = 1.5
    parallel = 1000
  }
}
