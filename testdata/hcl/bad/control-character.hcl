model "m" { path = "m" }
# [2J
slot "s" { model = model.m }
