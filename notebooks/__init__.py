"""Short stories about money, told with `cost_model`; no logic of their own.

Each is a marimo notebook: `marimo edit notebooks/what_if.py` for sliders, `python
notebooks/what_if.py` as a script, and an exported page beside it that needs nothing but a browser.
`python -m notebooks.export` writes the pages anew.
"""
