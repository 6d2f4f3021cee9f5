"""infertop: what limits this inference host, is it healthy, will it survive a restart?"""

__version__ = "0.1.0"
