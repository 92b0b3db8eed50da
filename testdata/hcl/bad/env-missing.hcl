model "m" { path = env("FIRSTFRAME_TEST_NOT_SET") }
slot "s" { model = model.m }
