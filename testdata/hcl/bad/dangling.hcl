model "m" { path = "m.gguf" }
slot "s" { model = model.mm }
alias "a" { slot = slot.t }
