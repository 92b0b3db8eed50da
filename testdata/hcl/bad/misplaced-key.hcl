model "m" { path = "m" }
slot "s" {
  model    = model.m
  parallel = 2
}
