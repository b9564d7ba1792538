"""Planted faults and honest differences: does a comparison name the call that went wrong, and keep quiet otherwise?"""
