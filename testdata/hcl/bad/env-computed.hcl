model "m" { path = env(env("FIRSTFRAME_TEST_NOT_SET", "NAME")) }
slot "s" { model = model.m }
