# A machine with one graphics card. GPU workers are not in this version: validate
# and serve refuse the lines that ask for one and name them. It shows how such a
# machine is going to be declared, and where the limit is today.

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
  context {
    tokens   = 16384
    parallel = 4
  }
}
