"""Packages, wheels and environments: what the sessions of noxfile.py share."""
