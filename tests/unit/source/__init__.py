"""What source/ promises."""
