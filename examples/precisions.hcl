# One model in several precisions under one name. A request asks for "chat:Q4_K_M"
# or "chat:F16"; "chat" alone is refused with both as candidates. The alias gives
# those who do not care a name that always means the same.

locals {
  models = env("MODELS", "models")
}

supervisor {
  budget {
    host = "24GiB" # both models, as long as there is room
    device "cpu" { memory = "8GiB" }
  }
}

frontend "http" {
  listen = "127.0.0.1:8080"
}

model "chat-q4" {
  name      = "chat"
  path      = "${local.models}/chat-Q4_K_M.gguf"
  precision = "Q4_K_M" # another one in the file keeps the slot empty
}

model "chat-f16" {
  name      = "chat"
  path      = "${local.models}/chat-F16.gguf"
  precision = "F16"
}

slot "fast" {
  model = model.chat-q4
  pin   = true # never evicted to make room for the other
  context { tokens = 4096 }
}

slot "exact" {
  model    = model.chat-f16
  preload  = false  # the first request prepares it
  idle_ttl = "30m"
  context { tokens = 4096 }
}

alias "default" { slot = slot.fast }
