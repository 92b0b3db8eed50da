frontend "http" {
  listen   = "0.0.0.0:8080"
  api_keys = ["only keys"]
}
model "m" { path = "m.gguf" }
slot "s" { model = model.m }
