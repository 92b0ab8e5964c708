"""What an application attempt wants: its ask tables, as it sees them and as the ResourceManager holds them."""
