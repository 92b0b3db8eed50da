model "m" { path = "m.gguf" }
slot "s" {
  model      = model.m
  gpu_layers = 12
}
slot "t" {
  model      = model.m
  device     = "cuda:0"
  gpu_layers = 0
}
slot "u" {
  model  = model.m
  device = "cuda:01"
}
