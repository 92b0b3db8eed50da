model "m" { path = "m.gguf" }
slot "s" { model = model.m }
alias "a" { slot = slot.s }
alias "a" { slot = slot.s }
