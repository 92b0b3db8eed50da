model "m" { path = "${model.m}" }
slot "s" { model = model.m }
