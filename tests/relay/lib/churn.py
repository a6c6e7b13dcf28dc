"""Churn: services that are created and deleted while a process is killed."""
import threading
import time

from objects import service, slice_


def start_churn(t, f, p):
    """Starts a thread that applies, changes and finally deletes twelve services within three seconds."""
    def churn():
        for i in range(60):
            name, address = f"s{i % 12}", f.cluster(20 + i % 12)
            if i < 48:
                t.apply(service(name, f, address, [p]), slice_(name, f, ["p1" if i % 2 else "p2"], [p]), settle=False)
            else:
                t.delete(service(name, f, address, [p]), slice_(name, f, ["p1"], [p]), settle=False)
            time.sleep(0.05)

    changes = threading.Thread(target=churn)
    changes.start()
    return changes
