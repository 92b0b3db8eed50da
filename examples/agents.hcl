# Agents with long contexts: the beginning of each prompt was computed before, and
# comes from context pages, also after a restart of the machine.

supervisor {
  state_dir     = env("STATE", "/var/lib/firstframe/state") # pages on disk lie below it
  drain_timeout = "2m"
}

frontend "http" {
  listen = "127.0.0.1:8080"
}

model "agent" {
  path = env("MODEL", "models/agent.gguf")
}

slot "agent" {
  model    = model.agent
  replicas = 2      # a conversation goes back to the one that served its beginning
  deadline = "30m"
  queue    = 256
  context {
    tokens        = 32768
    parallel      = 4
    kv_type       = "q8_0" # about half the memory of f16
    prefill_chunk = 1024
  }
  pages {
    host  = "8GiB"
    disk  = "64GiB"
    reuse = "fast"
  }
}
