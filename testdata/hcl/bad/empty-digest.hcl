model "m" {
  path   = "m"
  sha256 = env("FIRSTFRAME_TEST_NOT_SET", "")
}
slot "s" { model = model.m }
