"""x."""
from hotlap.record import Study
def render(study: Study) -> str:
    return "x"
