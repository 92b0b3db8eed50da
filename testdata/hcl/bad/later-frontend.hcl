frontend "http" { listen = "127.0.0.1:8080" }
