resource "aws_msk_configuration" "prod" {
  kafka_versions    = ["3.6.0"]
  server_properties = <<PROPERTIES
min.insync.replicas = 2
PROPERTIES
}
