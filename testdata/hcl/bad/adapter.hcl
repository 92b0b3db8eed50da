model "story" { path = "story.gguf" }

slot "story" {
  model = model.story
  adapter { scale = 0.5 }
  adapter {
    path  = "one.gguf"
    scale = 0
  }
  adapter {
    path  = "two.gguf"
    scale = 1e9
  }
  adapter {
    path   = "three.gguf"
    sha256 = "abc"
  }
  adapter {
    path  = "four.gguf"
    scale = "much"
  }
}
