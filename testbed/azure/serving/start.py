# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulated Azure as a program: python3 start.py DIRECTORY PORT

It listens before anything else is loaded: who comes early waits a moment instead of being refused. The API
server does so: it asks for Entra's keys when it starts, and then not again for ten seconds.
"""

import socket
import sys

if __name__ == "__main__":
    listener = socket.create_server(("", int(sys.argv[2])), backlog=1024)

    from testbed.azure.serving.server import serve

    serve(sys.argv[1], listener)
