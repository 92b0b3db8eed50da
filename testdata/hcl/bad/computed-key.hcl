locals { a = { (env("HOME", "x")) = 1 } }
model "m" { path = "m" }
slot "s" { model = model.m }
