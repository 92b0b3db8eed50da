supervisor { state_dir = "a\u0000b" }
model "m" { path = "m" }
slot "s" { model = model.m }
