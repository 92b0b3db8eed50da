model "m" { path = "m" }
slot "s" {
  model = model.m
  thread = 1
}
