import assert from "node:assert/strict";
import type { ChaosLab } from "./lab.ts";

/** In the API server's namespace, not in the node's, whose rules are compared. */
const TABLE = "inet lost";

/**
 * Drops every packet of the node's open connections to a port of the API server, in both directions, as a router that has
 * lost its state does; new connections work. Returns the number of connections.
 */
export async function dropConnections(lab: ChaosLab, port: number): Promise<number> {
  const found = await lab.run("node", ["ss", "-Htn", "state", "established", `( dport = :${port} )`]);
  const clientPorts = [...found.matchAll(/:(\d+)\s+\S+:\d+\s*$/gm)].map(([, clientPort]) => clientPort!);
  assert.ok(clientPorts.length > 0, "there is no connection to the API server");
  await nft(
    `add table ${TABLE}`,
    `add chain ${TABLE} arrives { type filter hook prerouting priority 0; }`,
    `add chain ${TABLE} leaves { type filter hook postrouting priority 0; }`,
    `add rule ${TABLE} arrives tcp dport ${port} tcp sport { ${clientPorts.join()} } drop`,
    `add rule ${TABLE} leaves tcp sport ${port} tcp dport { ${clientPorts.join()} } drop`,
  );
  return clientPorts.length;
}

/** Stops dropping packets. */
export async function stopDropping(): Promise<void> {
  await nft(`add table ${TABLE}`, `delete table ${TABLE}`);
}

async function nft(...lines: readonly string[]): Promise<void> {
  const { success } = await new Deno.Command("nft", { args: [lines.join("\n")], stdin: "null" }).output();
  assert.ok(success, "nft refused the rules that drop the packets of connections");
}
