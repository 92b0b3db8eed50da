model "m" {}
slot "s" { model = model.m }
