"""kimi_magic."""
