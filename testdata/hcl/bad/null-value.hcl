model "m" { path = null }
slot "s" { model = model.m }
