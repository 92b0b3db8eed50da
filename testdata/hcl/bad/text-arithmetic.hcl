model "m" { path = "m" }
slot "s" {
  model   = model.m
  threads = "1e999999999" * 2
}
