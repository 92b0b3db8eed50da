model "m" { path = "m" }
slot "s" {
  model   = model.m
  context = { tokens = 128 }
}
