model "m" { path = "m" }
slot "s" {
  model    = model.m
  transfer = mmap
}
