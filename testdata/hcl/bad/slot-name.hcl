model "m" { path = "m.gguf" }
slot "../etc" { model = model.m }
