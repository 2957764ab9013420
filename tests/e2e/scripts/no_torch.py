print("nothing to see here")
