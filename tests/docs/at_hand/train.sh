# The training that blocks of the docs mean by train.sh.
python train.py "$@"
