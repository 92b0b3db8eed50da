supervisor {
  heartbeat   = "15s"
  wedge_after = "20s"
}
model "m" { path = "m.gguf" }
slot "s" {
  model = model.m
  restart {
    attempts = 5
    interval = "10s"
    mode     = "sometimes"
  }
}
slot "t" {
  model = model.m
  restart {
    delay     = "10s"
    max_delay = "5s"
  }
}
