"""Docker Compose files and the image's recipe; data only, read by `harness.lab.docker.lab`.

Holds no code: nothing here runs or imports anything. Docker reads the files.
"""
