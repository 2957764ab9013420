from ours import traced


@traced(model)
def step(x):
    return model(x)


# edit: call traced | traced() |
# refused: the call is a decorator
