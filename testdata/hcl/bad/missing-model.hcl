slot "s" {}
