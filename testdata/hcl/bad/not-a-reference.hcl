model "m" { path = "m.gguf" }
slot "s" { model = "m" }
