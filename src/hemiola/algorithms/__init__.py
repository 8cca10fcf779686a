"""The library of collective algorithms: one file each, with its cost card; ``library.py`` lists them."""
