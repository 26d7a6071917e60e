"""Kills runs at random moments, and compares the machine before and after: is anything left, is anything lost?"""
