"""Docker Compose files and the image's recipe; data only, read by `harness.lab.docker.lab`."""
