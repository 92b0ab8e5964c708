"""The application master: it starts the services of one application, watches them and scales them."""
