model "m" { path = "m.gguf" }
slot "s" { model = model.m }
slot "s" { model = model.m }
