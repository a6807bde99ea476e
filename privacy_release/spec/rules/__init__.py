"""The rules that a release must meet, each written once. `judge.refuse` checks facts against them."""
