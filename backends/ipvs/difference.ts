import type { HeldServer } from "./desired.ts";
import { type Operation, type ServerKey, terminatesGracefully, type VirtualServer } from "./virtual_servers.ts";

/**
 * What brings a virtual server from what the kernel holds to what is wanted.
 * @param terminating its real servers that have weight 0 and wait for the end of their connections
 */
export function* serverOperations(
  server: ServerKey,
  held: HeldServer | undefined,
  wanted: VirtualServer | undefined,
  terminating: ReadonlySet<string>,
): Generator<Operation> {
  if (!wanted) {
    if (held) yield { does: "delete", server };
    return;
  }
  if (!held) yield { does: "add", server, definition: wanted.definition };
  else if (held.definition !== wanted.definition) yield { does: "update", server, definition: wanted.definition };
  const there = new Set(held?.realServers);
  for (const real of wanted.realServers) {
    if (there.has(real)) continue;
    const isThere = terminating.has(real) || held?.misweighted?.has(real);
    yield { does: isThere ? "update-real" : "add-real", server, real, weight: 1 };
  }
  const stay = new Set(wanted.realServers);
  const graceful = terminatesGracefully(server);
  for (const real of [...held?.realServers ?? [], ...held?.misweighted ?? []]) {
    if (stay.has(real)) continue;
    if (graceful) yield { does: "update-real", server, real, weight: 0 };
    else yield { does: "delete-real", server, real };
  }
  if (graceful) return;
  for (const real of terminating) if (!stay.has(real)) yield { does: "delete-real", server, real };
}

/** The real servers that terminate once these operations are done. */
export function terminatingAfter(operations: Iterable<Operation>, before: ReadonlySet<string>): ReadonlySet<string> {
  const after = new Set(before);
  for (const operation of operations) {
    if (operation.does === "delete" || operation.does === "add") after.clear();
    else if (operation.does === "delete-real") after.delete(operation.real);
    else if (operation.does === "update-real" && operation.weight === 0) after.add(operation.real);
    else if (operation.does === "update-real" || operation.does === "add-real") after.delete(operation.real);
  }
  return after;
}
