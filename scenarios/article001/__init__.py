"""Article 001: losing and keeping messages, by scenario of partition and by cause of loss."""
