"""Records into classes, on integer codes: cuts, agglomeration, refinement, repair, and the rules of a class.

Everything here is shared by the anonymizers and knows none of them.
"""
