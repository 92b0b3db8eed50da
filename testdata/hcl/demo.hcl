# Two slots of one model in two precisions. Start them with
#   firstframe serve -c testdata/hcl/demo.hcl

model "storyteller-q8" {
  name      = "storyteller" # what requests call it
  path      = "../models/storyteller-q8_0.gguf"
  sha256    = "89b019474aa81e5c299e0ed32d19d49460c3bf19d8aca446fadf19b8f4c730c8"
  precision = "Q8_0"
}

model "storyteller-f16" {
  name      = "storyteller"
  path      = "../models/storyteller-f16.gguf"
  sha256    = "32e52065a5b1e29c0f6fea6b19618951d5e46aeeac08fbba2e7622ec93b32ac3"
  precision = "F16"
}

slot "story" {
  model   = model.storyteller-q8
  threads = 1 # the model is so small that more threads only wait for each other

  context {
    tokens   = 2048
    parallel = 4
  }
}

slot "story-f16" {
  model    = model.storyteller-f16
  transfer = "pageable"
  threads  = 1

  context {
    tokens = 2048
  }
}

alias "gpt-4o-mini" {
  slot = slot.story
}
