"""The rules that a release must keep, each written once; `judge.refuse` holds what is known against them."""
