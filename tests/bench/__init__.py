"""What Rota can do, measured against something named on the same machine in the same minutes."""
