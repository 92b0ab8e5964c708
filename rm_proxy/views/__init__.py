"""What REST and commands show, as pydantic models."""
