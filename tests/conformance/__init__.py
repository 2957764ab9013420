"""What every lever, rule and report must do, whoever wrote it: one suite over all of them."""
