supervisor {
  budget {
    host = "lots"
    device "cpu" { memory = "1KB" }
    device "cpu" { memory = "1GiB" }
    device "tpu" { memory = "1GiB" }
    device "cuda:all" { memory = "1GiB" }
  }
}
model "m" { path = "m.gguf" }
slot "s" {
  model    = model.m
  replicas = 0
  idle_ttl = "soon"
}
