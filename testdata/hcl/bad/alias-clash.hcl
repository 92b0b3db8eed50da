model "m" { path = "m.gguf" }
slot "s" { model = model.m }
alias "s" { slot = slot.s }
alias "m" { slot = slot.s }
