import { sleep, systemClock } from "../../platform/clock.ts";

/** A TCP load balancer in front of API servers. */
export interface LoadBalancer {
  /** The URL for clients. */
  readonly url: string;
  readonly port: number;
  /** Sends new connections to another server. */
  switchTo(url: string): void;
  /** Limits responses to about 10 kB a second on each connection, a few bytes at a time. */
  throttle(on: boolean): void;
  /** Closes all open connections. */
  cut(): void;
  close(): void;
}

const FEW_BYTES = 32;
const THROTTLE_MS = 1;

/** Starts a load balancer on an address, in front of the server at `url`. */
export function startLoadBalancer(hostname: string, url: string): LoadBalancer {
  const listener = Deno.listen({ hostname, port: 0 });
  const open = new Set<Deno.TcpConn>();
  let target = url;
  let throttled = false;

  const carry = async (from: Deno.TcpConn, to: Deno.TcpConn, isSlow: () => boolean) => {
    const buffer = new Uint8Array(16_384);
    try {
      for (let read; (read = await from.read(buffer)) !== null;) {
        for (let sent = 0; sent < read;) {
          const slow = isSlow();
          sent += await to.write(buffer.subarray(sent, slow ? Math.min(read, sent + FEW_BYTES) : read));
          if (slow) await sleep(systemClock, THROTTLE_MS);
        }
      }
    } catch {
      // An error on one side closes both.
    }
    for (const end of [from, to]) {
      if (open.delete(end)) end.close();
    }
  };

  const accept = async () => {
    for await (const near of listener) {
      const { hostname, port } = new URL(target);
      const far = await Deno.connect({ hostname, port: Number(port) }).catch(() => undefined);
      if (far === undefined) {
        near.close();
        continue;
      }
      near.setNoDelay(true);
      open.add(near).add(far);
      void carry(near, far, () => false);
      void carry(far, near, () => throttled);
    }
  };
  // Rejects when the listener is closed.
  accept().catch(() => {});

  const cut = () => {
    for (const end of open) end.close();
    open.clear();
  };
  const { port } = listener.addr;
  return {
    url: `http://${hostname}:${port}`,
    port,
    switchTo(url) {
      target = url;
    },
    throttle(on) {
      throttled = on;
    },
    cut,
    close() {
      listener.close();
      cut();
    },
  };
}
