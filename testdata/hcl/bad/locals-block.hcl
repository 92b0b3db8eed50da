locals {
  a { b = 1 }
}
model "m" { path = "m" }
slot "s" { model = model.m }
