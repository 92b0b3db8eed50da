model "m" { path = env() }
model "n" { path = env("A", "b", "c") }
slot "s" { model = model.m }
