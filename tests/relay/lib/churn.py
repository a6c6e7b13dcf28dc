"""Services that come and go: what goes on while something is killed."""
import threading
import time

from objects import service, slice_


def start_churn(t, f, p):
    """Applies and deletes twelve services, over three seconds; returns the thread that does it. None is left."""
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
