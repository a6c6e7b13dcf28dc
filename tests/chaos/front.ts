import { sleep, systemClock } from "../../platform/clock.ts";

/** A load balancer before API servers, over plain TCP. */
export interface Front {
  /** What a client is given as the API server. */
  readonly url: string;
  readonly port: number;
  /** Where new connections lead from now on. */
  leadTo(url: string): void;
  /** Whether the servers' bytes come a few at a time, some 10 kB a second on each connection. */
  trickle(on: boolean): void;
  /** Breaks the connections that there are. */
  cut(): void;
  close(): void;
}

const FEW_BYTES = 32;
const TRICKLE_MS = 1;

/** Starts one on an address, before the server at `url`. */
export function startFront(hostname: string, url: string): Front {
  const listener = Deno.listen({ hostname, port: 0 });
  const open = new Set<Deno.TcpConn>();
  let target = url;
  let trickles = false;

  const carry = async (from: Deno.TcpConn, to: Deno.TcpConn, isSlow: () => boolean) => {
    const buffer = new Uint8Array(16_384);
    try {
      for (let read; (read = await from.read(buffer)) !== null;) {
        for (let sent = 0; sent < read;) {
          const slow = isSlow();
          sent += await to.write(buffer.subarray(sent, slow ? Math.min(read, sent + FEW_BYTES) : read));
          if (slow) await sleep(systemClock, TRICKLE_MS);
        }
      }
    } catch {
      // A connection that breaks on one side ends on both.
    }
    for (const end of [from, to]) {
      if (open.delete(end)) end.close();
    }
  };

  const accept = async () => {
    for await (const near of listener) {
      const { hostname, port } = new URL(target);
      const far = await Deno.connect({ hostname, port: Number(port) });
      near.setNoDelay(true);
      open.add(near).add(far);
      void carry(near, far, () => false);
      void carry(far, near, () => trickles);
    }
  };
  // Ends with the listener.
  accept().catch(() => {});

  const cut = () => {
    for (const end of open) end.close();
    open.clear();
  };
  const { port } = listener.addr;
  return {
    url: `http://${hostname}:${port}`,
    port,
    leadTo(url) {
      target = url;
    },
    trickle(on) {
      trickles = on;
    },
    cut,
    close() {
      listener.close();
      cut();
    },
  };
}
