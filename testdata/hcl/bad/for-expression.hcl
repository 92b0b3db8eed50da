model "m" { path = [for x in ["a"] : x][0] }
slot "s" { model = model.m }
