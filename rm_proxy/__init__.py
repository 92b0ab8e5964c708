"""The proxy in front of the ResourceManager's scheduler address: routes containers guaranteed or queueable."""
