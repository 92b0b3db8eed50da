model "m" { path = file("/etc/passwd") }
slot "s" { model = model.m }
