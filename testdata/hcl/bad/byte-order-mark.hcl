model "m" { paht = "m" }
