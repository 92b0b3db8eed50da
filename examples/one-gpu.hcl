# A machine with one graphics card. Slots on it need the worker for CUDA and the
# engine with its backend (docs/gpu.md); untested on hardware.

supervisor {
  budget {
    host = "32GiB"
    device "cuda:0" { memory = "22GiB" }
  }
}

frontend "http" {
  listen = "127.0.0.1:8080"
}

model "chat" {
  path = env("MODEL", "models/chat.gguf")
}

slot "chat" {
  model  = model.chat
  device = "cuda:0"
  # All layers go there unless gpu_layers says how many; how the weights get there
  # is measured unless transfer says it.
  context {
    tokens   = 16384
    parallel = 4
  }
}
