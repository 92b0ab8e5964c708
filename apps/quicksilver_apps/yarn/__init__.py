"""A client of YARN in asyncio, for the application master, the app server and measurements."""
