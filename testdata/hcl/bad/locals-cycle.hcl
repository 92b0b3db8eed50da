locals {
  a = local.b
  b = local.a
}
model "m" { path = local.a }
slot "s" { model = model.m }
