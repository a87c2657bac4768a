"""What people practise with: the checks of a decoder, and the bug museum they are tried on."""
