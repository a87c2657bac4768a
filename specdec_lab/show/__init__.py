"""What people look at: token strips in the terminal."""
