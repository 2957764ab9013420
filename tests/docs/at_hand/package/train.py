"""The same training as a module, for `-m package.train`."""

from train import main

if __name__ == "__main__":
    main()
