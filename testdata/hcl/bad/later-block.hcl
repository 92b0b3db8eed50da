model "m" { path = "m.gguf" }
slot "s" {
  model = model.m
  pages { host = "1GiB" }
}
