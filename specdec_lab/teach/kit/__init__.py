"""The lecture kit: pages, slides, live-coding copies, wheel and API reference, made from the notebooks that have been run.

`python -m specdec_lab.teach.kit --out kit` builds it. It runs no notebook and no model, needs no network, and nothing that it
writes needs one. What it is made with comes with `pip install specdec_lab[kit]`.
"""
