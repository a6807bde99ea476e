"""What an attacker would try on a release."""
