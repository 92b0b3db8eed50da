model "m" { path = "m" }
slot "s" {
  model = model.m
  threads { count = 2 }
}
