model "m" { path = "m.gguf" }
slot { model = model.m }
