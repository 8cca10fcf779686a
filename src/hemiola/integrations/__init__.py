"""Hemiola inside the frameworks that people train with; each is an extra, and nothing else imports from here."""
