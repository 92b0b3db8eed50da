# One model, served to OpenAI clients on http://127.0.0.1:8080/v1.

frontend "http" {
  listen = "127.0.0.1:8080"
}

model "chat" {
  path = env("MODEL", "models/chat.gguf")
}

slot "chat" {
  model = model.chat
  context {
    tokens   = 4096 # for each conversation
    parallel = 2    # at the same time
  }
}
