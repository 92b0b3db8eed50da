locals { folder = "x" }
model "m" { path = "${local.foldr}/m" }
slot "s" { model = model.m }
