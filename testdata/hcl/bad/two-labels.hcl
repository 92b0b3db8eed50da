model "m" "n" { path = "m" }
