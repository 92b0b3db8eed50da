model "m" { path = "m.gguf" }
model "m" { path = "m.gguf" }
slot "s" { model = model.m }
