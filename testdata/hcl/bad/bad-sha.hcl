model "m" {
  path   = "m.gguf"
  sha256 = "1234"
}
slot "s" { model = model.m }
