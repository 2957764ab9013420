from ours import traced


@traced(model)
def step(x):
    return model(x)


# edit: add traced wrapped=True
# refused: the call is a decorator
