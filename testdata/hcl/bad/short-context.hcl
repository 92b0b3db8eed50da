model "m" { path = "m" }
slot "s" {
  model = model.m
  context {
    tokens = 64
    page   = 128
  }
}
