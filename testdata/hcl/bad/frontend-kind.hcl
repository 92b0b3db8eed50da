frontend "grpc" {}
frontend "http" {
  max_body = "1TiB"
  cors     = [""]
  tls { cert = "cert.pem" }
}
frontend "http" {}
telemetry { log_level = "loud" }
