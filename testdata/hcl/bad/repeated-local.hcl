locals { a = 1 }
locals { a = 2 }
model "m" { path = "m" }
slot "s" { model = model.m }
