model "m" { path = "m.gguf" }
slot "s" {
  model      = model.m
  memory_max = "4GiB"
}
