model "m" { path = "m.gguf" }
slot "s" {
  model = model.m
  context { 
    page          = 64
    prefill_chunk = 100
  }
}
