/** UDP datagrams to all nodes on the LAN of a site. */
import { createSocket } from "node:dgram";

/** A socket for datagrams. */
export interface Datagrams {
  /** Sends to every node on the LAN, this one included. Losses are not reported. */
  sendToAll(data: Uint8Array): void;
  close(): void;
}

/** Opens a socket. Rejects with an Error if that is impossible. */
export type OpenDatagrams = (onDatagram: (data: Uint8Array) => void) => Promise<Datagrams>;

/** Opens a socket that sends to an IPv4 broadcast or multicast address, and receives on its port. Only the LAN gets multicasts. */
export function datagramsOn(host: string, port: number): OpenDatagrams {
  return (onDatagram) =>
    new Promise((resolve, reject) => {
      const socket = createSocket({ type: "udp4", reuseAddr: true });
      // A send fails while the LAN is down; the nodes then do without it.
      const ignore = () => {};
      socket.once("error", reject);
      socket.on("message", (data) => onDatagram(data));
      // Broadcasts only arrive at a socket of every address.
      socket.bind(port, "0.0.0.0", () => {
        try {
          if (isMulticast(host)) {
            socket.addMembership(host);
            socket.setMulticastTTL(1);
          } else socket.setBroadcast(true);
        } catch (error) {
          socket.close();
          return reject(error);
        }
        socket.off("error", reject);
        socket.on("error", ignore);
        resolve({
          sendToAll: (data) => socket.send(data, port, host, ignore),
          close: () => socket.close(),
        });
      });
    });
}

/** Whether an IPv4 address is a multicast one (RFC 5771). */
function isMulticast(host: string): boolean {
  const first = Number(host.split(".")[0]);
  return first >= 224 && first < 240;
}
