slot "s" {
