locals { a = "x" }
model "m" { path = local }
slot "s" { model = model.m }
