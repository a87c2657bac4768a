"""What people look at: token strips, pictures with a sentence each, the round player, sliders, taught numbers."""
