model "m" { path = "m" }
slot "s" { model = model.m }
alias "a" {
  slot       = slot.s
  weightless = true
}
