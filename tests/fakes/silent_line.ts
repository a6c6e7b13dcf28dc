/** A TCP proxy whose connections can go silent, as when a machine in between loses power. */
export interface SilentLine {
  readonly port: number;
  /** Silently discards everything on the open connections from now on. */
  silence(): void;
  /** The number of connections opened, closed by each side, and bytes sent by the server. */
  counts(): { readonly received: number; readonly opened: number; readonly client: number; readonly server: number };
  close(): void;
}

/** Starts a proxy to this port of 127.0.0.1. New connections work even after `silence`. */
export function startSilentLine(toPort: number): SilentLine {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connections = new Set<{ dead: boolean; readonly ends: readonly Deno.TcpConn[] }>();
  const counts = { received: 0, opened: 0, client: 0, server: 0 };

  const accept = async () => {
    for await (const near of listener) {
      const far = await Deno.connect({ hostname: "127.0.0.1", port: toPort });
      counts.opened++;
      const connection = { dead: false, ends: [near, far] };
      connections.add(connection);
      const carry = async (from: Deno.TcpConn, to: Deno.TcpConn, closer: "client" | "server") => {
        const buffer = new Uint8Array(65_536);
        try {
          for (let read; (read = await from.read(buffer)) !== null;) {
            if (closer === "server") counts.received += read;
            for (let sent = 0; !connection.dead && sent < read;) sent += await to.write(buffer.subarray(sent, read));
          }
        } catch {
          // A broken connection counts as closed.
        }
        counts[closer]++;
        if (!connection.dead) closeQuietly(to);
      };
      void carry(near, far, "client");
      void carry(far, near, "server");
    }
  };
  // Rejects when the listener is closed.
  accept().catch(() => {});

  return {
    port: listener.addr.port,
    silence() {
      for (const connection of connections) connection.dead = true;
    },
    counts: () => ({ ...counts }),
    close() {
      listener.close();
      for (const { ends } of connections) ends.forEach(closeQuietly);
    },
  };
}

function closeQuietly(connection: Deno.TcpConn): void {
  try {
    connection.close();
  } catch {
    // Already closed.
  }
}
