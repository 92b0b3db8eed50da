model "m" {
  path      = "m.gguf"
  precision = "eight bits"
}
slot "s" { model = model.m }
