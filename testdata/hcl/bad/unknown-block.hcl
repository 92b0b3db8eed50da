model "m" { path = "m.gguf" }
slots "s" { model = model.m }
