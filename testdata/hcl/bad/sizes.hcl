model "m" { path = "m.gguf" }
slot "s" {
  model    = model.m
  queue    = 0
  deadline = "5"
  pages {
    host = "512"
    disk = "12 parsecs"
  }
}
slot "t" {
  model    = model.m
  deadline = "200h"
  pages {
    host  = "1KiB"
    disk  = "-1GiB"
    reuse = "sloppy"
  }
}
slot "u" {
  model = model.m
  context { page = 32 }
  pages { reuse = "exact" }
}
