locals {
  a0 = "ha ha ha "
  a1 = "${local.a0}${local.a0}${local.a0}${local.a0}${local.a0}${local.a0}${local.a0}${local.a0}${local.a0}${local.a0}"
  a2 = "${local.a1}${local.a1}${local.a1}${local.a1}${local.a1}${local.a1}${local.a1}${local.a1}${local.a1}${local.a1}"
  a3 = "${local.a2}${local.a2}${local.a2}${local.a2}${local.a2}${local.a2}${local.a2}${local.a2}${local.a2}${local.a2}"
  a4 = "${local.a3}${local.a3}${local.a3}${local.a3}${local.a3}${local.a3}${local.a3}${local.a3}${local.a3}${local.a3}"
  a5 = "${local.a4}${local.a4}${local.a4}${local.a4}${local.a4}${local.a4}${local.a4}${local.a4}${local.a4}${local.a4}"
  a6 = "${local.a5}${local.a5}${local.a5}${local.a5}${local.a5}${local.a5}${local.a5}${local.a5}${local.a5}${local.a5}"
  a7 = "${local.a6}${local.a6}${local.a6}${local.a6}${local.a6}${local.a6}${local.a6}${local.a6}${local.a6}${local.a6}"
}
model "m" { path = "m" }
slot "s" { model = model.m }
