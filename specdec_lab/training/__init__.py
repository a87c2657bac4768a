"""The scripts that made `specdec_lab/assets/tiny`: one command, `python -m specdec_lab.training`.

Nothing here is imported by the rest of the package.
"""
