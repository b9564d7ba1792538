"""Models that other people wrote, with faults and with honest changes: how often is the origin named rightly?"""
