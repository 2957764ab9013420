# Named as a part of hotlap.
MINE = True
