"""Commands about policies and settings: check, show, try, reload; the schema and the page of settings."""
