"""What makes a running container smaller and gives it its full limits back; one module per mechanism."""
