print(f"{model(x)}")
# edit: add model mode="fast"
# refused: the call is in an f-string
