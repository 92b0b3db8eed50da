state_dir = "x"
